"""A detector as one file: a checkpoint, with names of objects and attributes beside."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from pipeline.features.weights import KEY, damaged, read_weights, write_weights
from pipeline.runtime.errors import WorkbenchError, listing

MARK = "detector"  # key of the metadata that tells these files from other weights of ours
SCHEMA_VERSION = 1
BODY = "backbone.body."  # before the names of an FPN detector's ResNet

Names = Annotated[tuple[str, ...], Field(strict=False)]


class DetectorDescription(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_version: int = SCHEMA_VERSION
    architecture: Literal["fpn_resnet18", "fpn_resnet50", "c4_resnet101"]
    sizes: dict[str, Any]  # the keyword arguments of `build_detector`
    object_names: Names  # C, without background
    attribute_names: Names  # A, without "no attribute"
    origin: Literal["trained", "random", "file"]
    params: dict[str, Any]  # values of params.yaml that decided the weights
    inputs: dict[str, str]  # digests of what they were made from
    validation: dict[str, float]  # recall, map and attributes as shares, or empty


def describe(
    network: Any,
    origin: Literal["trained", "random", "file"],
    params: dict[str, Any],
    inputs: dict[str, str],
    validation: Mapping[str, float],
) -> DetectorDescription:
    """The description of a detector for its file.

    Args:
        network: the detector, which knows its architecture, sizes and names.
        origin: where its weights come from.
        params: values of params.yaml that decided them.
        inputs: digests of what they were made from.
        validation: recall, map and attributes as shares, empty where nothing was measured.

    Returns:
        What the header of the file says beside the weights.
    """
    return DetectorDescription(
        architecture=network.architecture,
        sizes=asdict(network.sizes),
        object_names=network.object_names,
        attribute_names=network.attribute_names,
        origin=origin,
        params=params,
        inputs=inputs,
        validation=dict(validation),
    )


def write_detector(path: Path | str, network: nn.Module, description: DetectorDescription) -> None:
    """Write weights and description atomically; the same content gives the same bytes.

    Args:
        path: of the file.
        network: its weights are written.
        description: of the network.
    """
    write_weights(path, network.state_dict(), {MARK: True} | description.model_dump(mode="json"))


def is_detector_file(path: Path | str) -> bool:
    """Whether a file was written by `write_detector`, as far as its header says."""
    try:
        with safe_open(path, framework="pt") as file:
            return MARK in json.loads((file.metadata() or {}).get(KEY, "{}"))
    except (SafetensorError, OSError, ValueError, TypeError, RecursionError):
        return False


def read_detector(path: Path | str) -> tuple[DetectorDescription, dict[str, Tensor]]:
    """Description and weights, on the CPU, of a whole file of this program."""
    entry, weights, _ = read_weights(path, "detector", SCHEMA_VERSION)
    if not entry.pop(MARK, False):
        raise damaged(Path(path), "weights of something else", "detector")
    try:
        return DetectorDescription.model_validate(entry), weights
    except ValidationError as error:
        keys = listing(".".join(map(str, detail["loc"])) for detail in error.errors())
        raise damaged(Path(path), f"its metadata is wrong in: {keys}", "detector") from None


def read_names(folder: Path | str | None, objects: int, attributes: int) -> tuple[list[str], ...]:
    """Names of objects and attributes: folder/objects.txt and folder/attributes.txt, one name a
    line, of several synonyms divided by commas the first.

    Args:
        folder: of the two files; None numbers the names from 1.
        objects: how many objects the weights have, without background.
        attributes: how many attributes they have, without "no attribute".

    Returns:
        The names of the objects, then of the attributes.

    Raises:
        WorkbenchError: a file is missing, has another number of lines, or an empty one.
    """
    wanted = {"objects.txt": (objects, "class"), "attributes.txt": (attributes, "attribute")}
    return tuple(
        [f"{kind} {number}" for number in range(1, count + 1)]
        if folder is None or not count
        else _lines(Path(folder) / name, count)
        for name, (count, kind) in wanted.items()
    )


def _lines(path: Path, count: int) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise WorkbenchError(
            f"{path}: not readable as names: {error}",
            "detector.names must be a folder with objects.txt and, for a detector with attributes, "
            "attributes.txt; null numbers them",
        ) from None
    names = [line.split(",")[0].strip() for line in lines]
    if len(names) != count or not all(names):
        lengths = f"{len(names)} lines, {names.count('')} of them empty"
        hint = "one name per line, background left out"
        raise WorkbenchError(f"{path}: {lengths}; the weights have {count} names", hint)
    return names
