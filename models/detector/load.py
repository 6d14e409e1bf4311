"""A detector's file as a network."""

from pathlib import Path

from torch import nn

from models.backbone.network import BackboneError
from models.detector.file import DetectorDescription, read_detector
from models.detector.weights import own_detector
from pipeline.storage.weights import damaged


def load_detector(path: Path) -> tuple[nn.Module, DetectorDescription]:
    """The detector of a file, on the CPU, in evaluation mode; WorkbenchError as read_detector."""
    description, weights = read_detector(path)
    names = description.object_names, description.attribute_names
    try:
        network = own_detector(description.architecture, *names, description.sizes, weights)
    except BackboneError as error:
        raise damaged(path, str(error), "detector") from None
    return network, description
