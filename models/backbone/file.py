"""The network behind image features, kept in a file and built again from it.

The dual path trains this network further and a query image goes through it: both need the weights
that made the features, whatever params.yaml says by then.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from models.backbone.network import Backbone, BackboneError, classifier, cut, load_strict, probe
from models.backbone.params import UNNAMED, ImageNetworkConfig
from models.backbone.preprocessing import Preprocessing, preprocessing_of
from pipeline.runtime.errors import WorkbenchError, first_line
from pipeline.storage.weights import damaged, read_weights, write_weights

KIND = "image network"
NO_NETWORK: dict[str, Any] = {"source": "file"}


@dataclass(frozen=True)
class ImageNetwork:
    settings: dict[str, Any]  # what its features depend on
    backbone: Backbone  # images to features
    width: int  # D
    preprocessing: Preprocessing  # from a picture to its inputs


def write_network(path: Path, network: ImageNetwork | None) -> None:
    """Keep a network as it is built, before it is accelerated; None: say in its place that there is
    none, as the features were made elsewhere."""
    settings, weights = NO_NETWORK, dict[str, Tensor]()
    if network is not None:
        settings, weights = network.settings, network.backbone.state_dict()
    write_weights(path, weights, {"schema_version": 1, "kind": KIND, "settings": settings})


def read_network(path: Path) -> ImageNetwork:
    """The network that `write_network` kept, in evaluation mode."""
    entry, weights, _ = read_weights(path, KIND, schema_version=1)
    if entry.get("settings") == NO_NETWORK:
        raise WorkbenchError(
            f"{path}: the image features come from a file (image_features.source: file): there is "
            "no network here that makes them from an image",
            "search with a text; for a query image, dual_path or two_branch.fine_tuning, set "
            "image_features.source: network and run: dvc repro",
        )
    try:
        recorded = dict(entry["settings"])
        # the weights are at hand; the path of a file that they came from is not kept
        fields = recorded | {"weights": "random", "workers": 0}
        settings = ImageNetworkConfig.validate_complete({**UNNAMED, **fields})
        network = cut_network(classifier(settings.model), settings, recorded)
        load_strict(network.backbone, weights)
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(path, first_line(error), KIND) from None
    return network


def cut_network(
    network: nn.Module, settings: ImageNetworkConfig, kept: dict[str, Any]
) -> ImageNetwork:
    """A classifier, cut and pooled as settings say; BackboneError when it cannot be. kept: what its
    features depend on."""
    preprocessing = preprocessing_of(
        settings.model, settings.size, settings.views, settings.resize, settings.normalisation
    )
    backbone, width = cut(network, settings.layers, settings.pool, preprocessing.crop)
    return ImageNetwork(kept, backbone, width, preprocessing)


def check_size(network: nn.Module, size: int, key: str) -> None:
    """Refuse square images of `size` pixels, set by `key`, that the network cannot process."""
    try:
        probe(network, size)
    except BackboneError as error:
        raise WorkbenchError(
            f"{key} = {size}: the network of image_features does not take such images: {error}",
            f"change {key} in params.yaml",
        ) from None
