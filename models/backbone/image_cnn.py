"""The network behind cached image features as a part of a model, which trains it on from there."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from models.backbone.file import ImageNetwork, check_size, read_network
from models.backbone.network import classifier, cut, weights_digest
from models.backbone.pixels import PixelRows, shown
from models.backbone.preprocessing import Preprocessing, preprocessing_of
from pipeline.corpus.images import check_aspect
from pipeline.corpus.tables import load_images
from pipeline.inputs.data import MEMORY_BUDGET, ImageRows, ImageVectors
from pipeline.inputs.files import Inputs
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError
from pipeline.storage.checkpoint import Checkpoint
from pipeline.storage.features import FeatureFile

Architecture = dict[str, Any]
# Settings of the network's file that an architecture has where the file names them.
NAMED = {"resize": "image_resizing", "normalisation": "image_normalisation"}


class TunedImages(ImageVectors):
    """Features of images, and the network that made them, which is trained further.

    Args:
        files: The artefacts: features, and the network's file.
        crop: Side of the crops in training, pixels, which the network must be able to take.
        key: Of params.yaml that sets it.
        in_memory: Whether features are read into memory where they fit, as soon as some are asked
            for: an evaluation from pixels asks for none.

    Raises:
        WorkbenchError: The features are no vectors.
    """

    def __init__(self, files: Inputs, crop: int, key: str, in_memory: bool = True) -> None:
        super().__init__(files.features, in_memory=False)
        self.files = files
        self.crop = crop
        self.key = key
        self.is_to_be_loaded = in_memory

    @cached_property
    def network(self) -> tuple[ImageNetwork, Architecture]:
        """The network, and how it is built; WorkbenchError when the file is another network's, or
        it does not take such crops."""
        return network_to_tune(self.files, self.file, self.crop, self.key)

    @property
    def sizes(self) -> Architecture:
        """D, and the other entries `image_...` of an architecture."""
        return self.network[1]

    def source(self, ids: Sequence[str]) -> ImageRows:
        """The features of these images."""
        if self.is_to_be_loaded:
            self.file.in_memory(MEMORY_BUDGET)
            self.is_to_be_loaded = False
        return super().source(ids)


class SeenImages(TunedImages):
    """Tuned images that are scored as their features were made: from the same crops (`views`)."""

    @property
    def sizes(self) -> Architecture:
        """D, and the other entries `image_...` of an architecture, the kind of crops among them."""
        network, architecture = self.network
        return architecture | {"image_views": network.preprocessing.views}


def network_to_tune(
    inputs: Inputs, features: FeatureFile, crop: int, key: str
) -> tuple[ImageNetwork, Architecture]:
    """The network that made the features, and how to build it; WorkbenchError when the file is
    another network's, or it does not take images of `crop` pixels, set by `key`."""
    path = inputs.required("network")
    network = read_network(path)
    try:
        recorded = json.loads(str(features.attributes.get("params")))
    except ValueError:
        recorded = None
    digest = weights_digest(network.backbone)
    if recorded != network.settings or digest != features.attributes.get("weights_sha256"):
        raise WorkbenchError(f"{path}: not the network that made {features.path}", OUT_OF_STEP)
    crops, settings = network.preprocessing, network.settings
    architecture: Architecture = {
        "image_model": settings["model"],
        "image_layers": ",".join(settings["layers"]),
        "image_pool": settings["pool"],
        "image_resize": crops.resize,
        "image_crop": crops.crop,
        "image_dim": network.width,
    }
    architecture |= {kept: settings[name] for name, kept in NAMED.items() if name in settings}
    check_size(network.backbone, crop, key)
    return network, architecture


def tuned_classifier(checkpoint: Checkpoint) -> tuple[dict[str, Tensor], list[str]]:
    """The state dict of the whole classifier in a checkpoint, and the names behind the cut, whose
    values are random. WorkbenchError for timm's networks, whose parts have other names here."""
    described = checkpoint.description
    if "image_model" not in described.architecture:
        raise WorkbenchError(
            f"{checkpoint.path}: {described.model} has no image network of its own",
            "dual_path has one, and two_branch after two_branch.fine_tuning.epochs",
        )
    name = str(described.architecture["image_model"])
    state: dict[str, Tensor] = classifier(name).state_dict()
    start = "image_cnn.graph."
    tuned = {
        name.removeprefix(start): value
        for name, value in checkpoint.weights.items()
        if name.startswith(start)
    }
    if tuned.keys() - state.keys():
        raise WorkbenchError(
            f"{checkpoint.path}: the weights of {name} cannot be taken out of it",
            "networks of torchvision and of models.backbone.networks can",
        )
    return state | tuned, [name for name in state if name not in tuned]


def with_image_cnn(image_cnn: nn.Module | None = None, **sizes: Any) -> dict[str, Any]:
    """Sizes of a network with those of models.layers.pixels.SeesPixels for its entries `image_...`.
    image_cnn: with its weights; None makes it without."""
    crops = crops_of(sizes)
    if image_cnn is None:
        layers, pool = sizes["image_layers"].split(","), sizes["image_pool"]
        image_cnn, _ = cut(classifier(sizes["image_model"]), layers, pool, crops.crop)
    kept = {name: sizes[name] for name in sizes if name == "image_dim" or name[:6] != "image_"}
    return kept | {"image_cnn": image_cnn, "mean": crops.mean, "deviation": crops.std}


def crops_of(
    architecture: Mapping[str, Any], resize: int | None = None, crop: int | None = None
) -> Preprocessing:
    """How images become crops for the network of an architecture, with its entries `image_...`;
    resize, crop: pixels; None: those of the architecture."""
    named = {name: str(architecture[kept]) for name, kept in NAMED.items() if kept in architecture}
    views = str(architecture.get("image_views", "center"))
    published = preprocessing_of(str(architecture["image_model"]), None, views, **named)
    resize = int(resize or architecture["image_resize"])
    return replace(published, resize=resize, crop=int(crop or architecture["image_crop"]))


def pixel_source(
    inputs: Inputs,
    architecture: Mapping[str, Any],
    resize: int | None = None,
    crop: int | None = None,
    **options: Any,
) -> Callable[[Sequence[str]], PixelRows]:
    """The images of a split as pixels, in the place of cached features; options: of PixelRows."""
    crops, table = crops_of(architecture, resize, crop), load_images(inputs.images)
    return lambda ids: PixelRows(table, ids, crops, **options)


def pixels_of(architecture: Mapping[str, Any]) -> Callable[[Image.Image], Tensor]:
    """A function from an RGB image to what the network of an architecture takes, a batch of one."""
    crops = crops_of(architecture)

    def pixels(image: Image.Image) -> Tensor:
        check_aspect(image)
        return torch.from_numpy(shown(crops, image))[None]

    return pixels
