"""Images as pixels for a two-branch network that is fine-tuned with the image CNN in front of it.

Apart from model.py, since torchvision takes seconds to load.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from PIL import Image

from models.backbone.file import check_size
from models.backbone.image_cnn import ImageCNN, crops_of, open_network
from models.backbone.pixels import PixelRows, shown
from pipeline.corpus.images import check_aspect
from pipeline.corpus.tables import load_images
from pipeline.inputs.batches import Split, read_split
from pipeline.inputs.files import Inputs
from pipeline.inputs.sources import SentenceRows
from pipeline.storage.features import FeatureFile


def open_image_cnn(inputs: Inputs, features: FeatureFile, crop: int) -> ImageCNN:
    """The network that made the features, for training on crops of crop x crop pixels.

    Args:
        inputs: with the network's file.
        features: a file of them.
        crop: pixels.

    Raises:
        WorkbenchError: the network is not given, is none, or another one than that of the
            features, or does not take such crops.
    """
    network = open_network(inputs.required("network"), features)
    check_size(network.image_cnn, crop, "two_branch.fine_tuning.crop")
    return ImageCNN(
        network.image_cnn, network.architecture | {"image_views": network.views}, network.views
    )


def pixel_splits(
    inputs: Inputs,
    sentences: FeatureFile,
    architecture: Mapping[str, Any],
    resize: int | None = None,
    crop: int | None = None,
    **options: Any,
) -> Callable[[str], Split]:
    """A function from a split's name to its images as pixels and its captions as vectors.

    Args:
        inputs: whose tables of the corpus are read.
        sentences: of the captions, (M, S).
        architecture: of the network, with the entries `image_...`.
        resize: of training images, pixels; None: as for the cached features.
        crop: side of the crops, pixels; None likewise.
        **options: of models.backbone.pixels.PixelRows.
    """
    crops, table = crops_of(architecture, resize, crop), load_images(inputs.images)
    return lambda name: read_split(
        name,
        inputs.images,
        inputs.captions,
        lambda ids: PixelRows(table, ids, crops, **options),
        partial(SentenceRows, sentences),
    )


def pixels_of(architecture: Mapping[str, Any]) -> Callable[[Image.Image], torch.Tensor]:
    """A function from an RGB image to what the network takes of it, a batch of one.

    Args:
        architecture: of the network, with the entries `image_...`.
    """
    crops = crops_of(architecture)

    def pixels(image: Image.Image) -> torch.Tensor:
        check_aspect(image)
        return torch.from_numpy(shown(crops, image))[None]

    return pixels
