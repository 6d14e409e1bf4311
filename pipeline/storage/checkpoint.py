"""Finished weights with what is needed to use them again: sizes, parameters, inputs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import nn

from pipeline.runtime.errors import WorkbenchError, first_line, listing
from pipeline.storage.weights import damaged, read_weights, write_weights

SCHEMA_VERSION = 1

Module = TypeVar("Module", bound=nn.Module)


class Description(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_version: int = SCHEMA_VERSION
    model: str
    architecture: Mapping[str, bool | int | float | str]
    params: dict[str, Any]  # values of params.yaml that the training read
    inputs: dict[str, str]  # what identifies them: network behind features, digest of vocabulary
    epoch: int  # whose weights these are
    val_rsum: float


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint file's content: weights on the CPU, sha256 over weights and description."""

    path: Path
    weights: dict[str, torch.Tensor]
    description: Description
    sha256: str

    def require(self, inputs: Mapping[str, str]) -> None:
        """Raise WorkbenchError naming every input that is not the one of the training."""
        trained = self.description.inputs

        def shown(value: str | None) -> str:
            return "nothing" if value is None else value[:40] + ("..." if len(value) > 40 else "")

        others = [
            f"{name.replace('_', ' ')} {shown(value)} (trained with {shown(trained.get(name))})"
            for name, value in inputs.items()
            if value != trained.get(name)
        ]
        if others:
            raise WorkbenchError(
                f"{self.path}: does not fit its inputs: {', '.join(others)}",
                "bring checkpoint and inputs up to date with: dvc repro",
            )

    def build(self, kind: Callable[..., Module]) -> Module:
        """The network `kind(**architecture)` with these weights, on the CPU, in evaluation mode.
        It is first built without memory, since a damaged architecture may ask for any size."""
        sizes = self.description.architecture
        try:
            with torch.device("meta"):
                model = kind(**sizes)
        except (TypeError, ValueError, RuntimeError) as error:
            why = f"architecture {sizes} is impossible: {first_line(error)}"
            raise damaged(self.path, why) from None
        try:
            model.load_state_dict(self.weights, assign=True)
        except RuntimeError as error:  # its lines name the tensors
            raise damaged(self.path, " ".join(str(error).split())) from None
        return model.eval()


def write_checkpoint(
    path: Path | str, weights: Mapping[str, torch.Tensor], description: Description
) -> None:
    """Write weights and description atomically; the same content gives the same bytes."""
    write_weights(path, weights, description.model_dump(mode="json"))


def read_checkpoint(path: Path | str, model: str | None = None) -> Checkpoint:
    """Read and check a checkpoint of the system `model`, None for that of any."""
    path = Path(path)
    entry, weights, digest = read_weights(path, "checkpoint", SCHEMA_VERSION)
    try:
        description = Description.model_validate(entry)
    except ValidationError as error:
        keys = listing(".".join(map(str, detail["loc"])) for detail in error.errors())
        raise damaged(path, f"its metadata is wrong in: {keys}") from None
    if model not in (None, description.model):
        raise WorkbenchError(
            f"{path}: weights of the model {description.model!r}, not of {model!r}"
        )
    return Checkpoint(path, weights, description, digest)


def feature_identity(attributes: Mapping[str, Any], kind: str = "features") -> dict[str, str]:
    """What tells the features of one network from another's: entries for Description.inputs.
    kind: begins the entries' names. The corpus is left out: weights may be used on other images."""
    keys = ("model", "layer", "weights_sha256", "params")
    return {f"{kind}_{key}": str(attributes[key]) for key in keys if key in attributes}
