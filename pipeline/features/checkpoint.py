"""Checkpoints: finished weights with what is needed to use them again: sizes, parameters, inputs.

A checkpoint is a file of weights (`pipeline.features.weights`) whose entry is a `Description`.
`write_checkpoint` writes one, `read_checkpoint` reads one as a `Checkpoint`, which builds its
network and refuses other inputs than those of its training.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import nn

from pipeline.features.weights import damaged, read_weights, write_weights
from pipeline.runtime.errors import WorkbenchError, first_line, listing

SCHEMA_VERSION = 1
# What networks were seen to raise for an architecture that lacks a key or has a wrong value.
MISFITS = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)

Module = TypeVar("Module", bound=nn.Module)


class Description(BaseModel):
    """What a checkpoint says of its weights."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_version: int = SCHEMA_VERSION
    model: str  # its name, a file or folder of models/
    architecture: Mapping[str, bool | int | float | str]  # arguments of its network
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
        """Refuse other inputs than those of the training.

        Args:
            inputs: what identifies each input at hand, by the names of Description.inputs; inputs
                of the training that are not among them are not compared.

        Raises:
            WorkbenchError: naming every input that is another.
        """
        trained = self.description.inputs
        others = [
            f"{name.replace('_', ' ')} {_shortened(value)} "
            f"(trained with {_shortened(trained.get(name))})"
            for name, value in inputs.items()
            if value != trained.get(name)
        ]
        if others:
            raise WorkbenchError(
                f"{self.path}: does not fit its inputs: {', '.join(others)}",
                "bring checkpoint and inputs up to date with: dvc repro",
            )

    def build(self, kind: Callable[..., Module]) -> Module:
        """The network with these weights.

        Args:
            kind: the network's class, called with the architecture. It is first built without
                memory, since a damaged architecture may ask for any size.

        Returns:
            The network on the CPU, in evaluation mode.

        Raises:
            WorkbenchError: where architecture or weights do not fit the class.
        """
        sizes = self.description.architecture
        try:
            with torch.device("meta"):
                model = kind(**sizes)
        except MISFITS as error:
            why = f"architecture {sizes} is impossible: {first_line(error)}"
            raise damaged(self.path, why) from None
        try:
            model.load_state_dict(self.weights, assign=True)
        except RuntimeError as error:  # its lines name the tensors
            raise damaged(self.path, " ".join(str(error).split())) from None
        return model.eval()


def _shortened(value: str | None) -> str:
    if value is None:
        return "nothing"
    return value if len(value) <= 40 else f"{value[:40]}..."


def write_checkpoint(
    path: Path | str, weights: Mapping[str, torch.Tensor], description: Description
) -> None:
    """Write a checkpoint atomically; the same content gives the same bytes.

    Args:
        path: of the file.
        weights: tensors by name, on any device.
        description: what they are.

    Raises:
        WorkbenchError: where the disk has no room or refuses the file.
    """
    write_weights(path, weights, description.model_dump(mode="json"))


def read_checkpoint(path: Path | str, model: str | None = None) -> Checkpoint:
    """Read and check a checkpoint.

    Args:
        path: of the file.
        model: the name of the model that it must be of; None for any.

    Returns:
        Its content, the weights on the CPU.

    Raises:
        WorkbenchError: for a missing, damaged or foreign file, and for one of another model.
    """
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


def feature_identity(attributes: Mapping[str, object], kind: str = "features") -> dict[str, str]:
    """What tells the features of one network from another's. The corpus is left out: weights may be
    used on other images.

    Args:
        attributes: of a feature file.
        kind: begins the entries' names: "features", "words".

    Returns:
        Entries for Description.inputs, by name.
    """
    keys = ("model", "layer", "weights_sha256", "params")
    return {f"{kind}_{key}": str(attributes[key]) for key in keys if key in attributes}
