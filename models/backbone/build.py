"""The network of params.yaml that makes image features, with its first weights."""

from pathlib import Path

from torch import nn

from models.backbone.file import ImageNetwork, cut_network
from models.backbone.network import Backbone, BackboneError, classifier, load_strict
from models.backbone.params import ImageFeaturesConfig, provenance
from models.backbone.weights import load_weights, published_state
from models.detector.file import read_detector
from models.detector.fpn import BODY
from pipeline.runtime.errors import WorkbenchError


def build_network(settings: ImageFeaturesConfig, detector: Path) -> ImageNetwork:
    """The network of params.yaml; detector: the file that weights `detector` are taken from."""
    try:
        network = weighted(settings.model, settings.weights)
        kept = provenance(settings.model_dump(mode="json"))
        image_network = cut_network(network, settings, kept)
        if settings.weights == "detector":
            load_body(image_network.backbone, settings.model, detector, "image_features")
    except BackboneError as error:
        raise WorkbenchError(f"image_features: {error}", "change it in params.yaml") from error
    return image_network


def weighted(model: str, weights: str) -> nn.Module:
    """A whole network with its weights; those of the detector come when it is cut. Random ones
    are the same whatever `seed` is: runs with other seeds then share their features."""
    network = classifier(model)
    state = None if weights == "detector" else published_state(model, weights)
    if state is not None:
        load_weights(network, state)
    return network


def load_body(backbone: Backbone, model: str, detector: Path, section: str) -> None:
    """Load the detector's ResNet in place, as far as the cut network reaches; model: what was cut;
    section: of params.yaml, for messages."""
    description, state = read_detector(detector)
    if description.architecture != f"fpn_{model}":
        raise WorkbenchError(
            f"{section}.weights = detector: the detector is a {description.architecture}, "
            f"{section}.model a {model}",
            "give both the same ResNet, as fpn_resnet18 and resnet18",
        )
    body = {name.replace(BODY, "graph.", 1): value for name, value in state.items()}
    needed = backbone.state_dict()
    load_strict(backbone, {name: value for name, value in body.items() if name in needed})
