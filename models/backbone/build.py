"""The network of params.yaml that makes image features, with its first weights."""

from pathlib import Path

from torch import Tensor

from models.backbone.extraction import provenance
from models.backbone.file import ImageNetwork, cut_network
from models.backbone.network import Backbone, BackboneError, classifier, load_strict
from models.backbone.params import ImageFeaturesConfig
from models.backbone.weights import published_state
from models.detector.file import read_detector
from models.detector.fpn import body_state
from pipeline.runtime.errors import WorkbenchError


def build_network(settings: ImageFeaturesConfig, seed: int, detector: Path) -> ImageNetwork:
    """The network of params.yaml.

    Args:
        settings: the section image_features.
        seed: of random weights.
        detector: the file that weights `detector` are taken from.

    Raises:
        WorkbenchError: networks, layers and weights that cannot be used.
    """
    try:
        network = classifier(settings.model, seed)
        if settings.weights != "detector":
            state = published_state(settings.model, settings.weights)
            if state is not None:
                load_strict(network, state)
        made = cut_network(network, settings)
        if settings.weights == "detector":
            _load_body(made.backbone, settings.model, detector)
    except BackboneError as error:
        raise WorkbenchError(f"image_features: {error}", "change it in params.yaml") from error
    kept = provenance(settings.model_dump(mode="json"), seed)
    return ImageNetwork(kept, made.backbone, made.width, made.preprocessing)


def _load_body(backbone: Backbone, model: str, detector: Path) -> None:
    """The detector's ResNet, as far as the cut network reaches."""
    description, state = read_detector(detector)
    if description.architecture != f"fpn_{model}":
        raise WorkbenchError(
            f"image_features.weights = detector: the detector is a {description.architecture}, "
            f"image_features.model a {model}",
            "give both the same ResNet, as fpn_resnet18 and resnet18",
        )
    body: dict[str, Tensor] = {f"graph.{name}": value for name, value in body_state(state).items()}
    own = backbone.state_dict()
    load_strict(backbone, {name: value for name, value in body.items() if name in own})
