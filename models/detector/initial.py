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
    sizes = {}
    if settings.architecture.startswith("fpn_"):
        sizes = sizes_of(settings) | {"sampled": settings.training.sampled}
    names = labels.objects, labels.attributes
    return seeded_detector(settings.architecture, *names, seed, **sizes)


def detector_of_file(settings: DetectorConfig) -> tuple[nn.Module, DetectorDescription]:
    """The detector in the file that `weights` names: one of this program's, or a state dict."""
    path = Path(settings.weights)
    ours = is_detector_file(path)
    network, validation = _of_own_file(settings, path) if ours else (_of_others(settings, path), {})
    params, inputs = {"detector": decisive(settings)}, {"weights_sha256": sha256_file(path)}
    return network, describe(network, "file", params, inputs, validation)


def _of_own_file(settings: DetectorConfig, path: Path) -> tuple[nn.Module, dict[str, float]]:
    network, file = load_detector(path)
    if file.architecture != settings.architecture:
        raise WorkbenchError(
            f"{path}: holds a {file.architecture}, detector.architecture = {settings.architecture}",
            f"set detector.architecture to {file.architecture} in params.yaml",
        )
    return network, file.validation


def _of_others(settings: DetectorConfig, path: Path) -> nn.Module:
    state, architecture = read_state_dict(path), settings.architecture
    prefixes = prefixes_before(state, CLASSES)
    if len(prefixes) == 1 and prefixes[0]:
        state = under_prefix(state, prefixes[0])
        say(f"weights: the names begin with {prefixes[0]!r}, which is taken away")
    try:
        objects, attributes = read_names(settings.names, *known_names(architecture, state))
        return foreign_detector(architecture, state, objects, attributes, sizes_of(settings))
    except BackboneError as error:
        hint = f"detector.architecture = {architecture}: give its weights, or set that of the file"
        raise WorkbenchError(f"{path}: {error}", hint) from None
