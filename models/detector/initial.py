"""Detectors that are not trained here: with random weights, or of a file of weights."""

from pathlib import Path

from torch import nn

from models.backbone.network import BackboneError
from models.backbone.weights import prefixes_before, read_state_dict, under_prefix
from models.detector.data import Labels
from models.detector.file import DetectorDescription, describe, is_detector_file, read_names
from models.detector.params import DetectorConfig
from models.detector.setup import decisive, sizes_of
from models.detector.weights import (
    CLASSES,
    foreign_detector,
    known_names,
    load_detector,
    seeded_detector,
)
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file
from pipeline.runtime.process import say


def random_detector(settings: DetectorConfig, labels: Labels, seed: int = 0) -> nn.Module:
    """A detector with seeded random weights.

    Args:
        settings: the section `detector`: architecture and sizes.
        labels: the names of its objects and attributes.
        seed: of the weights; 0 where they are not trained: features then stay the same whatever
            `seed` of params.yaml is.

    Returns:
        The detector, on the CPU.
    """
    sizes = {}
    if settings.architecture.startswith("fpn_"):
        sizes = sizes_of(settings) | {"sampled": settings.training.sampled}
    return seeded_detector(
        settings.architecture, labels.objects, attribute_names=labels.attributes, seed=seed, **sizes
    )


def detector_of_file(settings: DetectorConfig) -> tuple[nn.Module, DetectorDescription]:
    """The detector in the file that `weights` names, one of this program's or a state dict of
    others, and its description; WorkbenchError for a file of neither kind or of another detector
    than `architecture`."""
    path = Path(settings.weights)
    validation: dict[str, float] = {}
    if is_detector_file(path):
        network, validation = _of_own_file(settings, path)
    else:
        network = _of_others(settings, path)
    params = {"detector": decisive(settings)}
    inputs = {"weights_sha256": sha256_file(path)}
    return network, describe(network, "file", params=params, inputs=inputs, validation=validation)


def _of_own_file(settings: DetectorConfig, path: Path) -> tuple[nn.Module, dict[str, float]]:
    network, file = load_detector(path)
    if file.architecture != settings.architecture:
        raise WorkbenchError(
            f"{path}: holds a {file.architecture}, detector.architecture = {settings.architecture}",
            f"set detector.architecture to {file.architecture} in params.yaml",
        )
    return network, file.validation


def _of_others(settings: DetectorConfig, path: Path) -> nn.Module:
    """The detector of a state dict, perhaps with a prefix before all of its names."""
    state = read_state_dict(path)
    architecture = settings.architecture
    prefixes = prefixes_before(state, CLASSES)
    if len(prefixes) == 1 and prefixes[0]:
        state = under_prefix(state, prefixes[0])
        say(f"weights: the names begin with {prefixes[0]!r}, which is taken away")
    try:
        object_count, attribute_count = known_names(architecture, state)
        objects, attributes = read_names(settings.names, object_count, attribute_count)
        return foreign_detector(
            architecture,
            state,
            object_names=objects,
            attribute_names=attributes,
            sizes=sizes_of(settings),
        )
    except BackboneError as error:
        hint = f"detector.architecture = {architecture}: give its weights, or set that of the file"
        raise WorkbenchError(f"{path}: {error}", hint) from None
