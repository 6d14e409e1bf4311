"""The network behind cached image features as a part of a model, which trains it on from there.

Its inputs are pixels: crops of decoded and resized files (`PixelRows`). A decoded image is kept in
memory within a budget, as bytes of its resized size, so that later epochs do not wait for decoding.
What is kept changes how fast rows come, never their values.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from PIL import Image
from torch import Tensor, nn

from models.backbone.network import (
    ImageNetwork,
    check_size,
    classifier,
    cut,
    read_network,
    weights_digest,
)
from models.backbone.preprocessing import Preprocessing, check_aspects, preprocessing_of
from pipeline.corpus.images import check_aspect
from pipeline.corpus.loading import ImageFiles
from pipeline.corpus.tables import load_images
from pipeline.features.checkpoint import Checkpoint
from pipeline.features.data import MEMORY_BUDGET, ImageRows, ImageVectors, Inputs
from pipeline.features.feature_file import FeatureFile
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError, listing
from pipeline.training.process_group import ProcessGroup

Pixels = npt.NDArray[np.uint8]
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
        return network_to_tune(self.files, self.file, crop=self.crop, key=self.key)

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
    """The network that made the image features, to be trained further.

    Args:
        inputs: of the model; `network` names the network's file.
        features: of the images, whose attributes say which network made them.
        crop: side of the training's crops, pixels.
        key: of params.yaml that sets the crop, for messages.

    Returns:
        The network, and the entries `image_...` of an architecture, which say how to build it.

    Raises:
        WorkbenchError: the file holds another network, or one that does not take such crops.
    """
    path = inputs.required("network")
    network = read_network(path)
    try:
        recorded = json.loads(str(features.attributes.get("params")))
    except ValueError:
        recorded = None
    digest = weights_digest(network.backbone)
    if recorded != network.settings or digest != features.attributes.get("weights_sha256"):
        raise WorkbenchError(f"{path}: not the network that made {features.path}", OUT_OF_STEP)
    crops = network.preprocessing
    settings = network.settings
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
    """The arguments of a network that has an image CNN in front.

    Args:
        image_cnn: with its weights; None builds it with random ones, to be loaded later.
        sizes: of the network, with the entries `image_...` of an architecture.

    Returns:
        The sizes, in the place of `image_...` the arguments of models.layers.pixels.SeesPixels.
    """
    crops = crops_of(sizes)
    if image_cnn is None:
        layers = sizes["image_layers"].split(",")
        network = classifier(sizes["image_model"])
        image_cnn, _ = cut(network, layers, pool=sizes["image_pool"], size=crops.crop)
    kept = {name: sizes[name] for name in sizes if name == "image_dim" or name[:6] != "image_"}
    return kept | {"image_cnn": image_cnn, "mean": crops.mean, "deviation": crops.std}


def crops_of(
    architecture: Mapping[str, Any], resize: int | None = None, crop: int | None = None
) -> Preprocessing:
    """How images become crops for the network of an architecture.

    Args:
        architecture: of a checkpoint or network, with the entries `image_...`.
        resize: length of the resized side, pixels; None for the architecture's.
        crop: side of the crops, pixels; None for the architecture's.

    Returns:
        Resizing, crops and normalisation: those published with the network, where the architecture
        and the arguments name no others.
    """
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
) -> Callable[[Sequence[str]], "PixelRows"]:
    """The images of a split as pixels, in the place of cached features.

    Args:
        inputs: of the model; `images` names the corpus's table.
        architecture: of the network, with the entries `image_...`.
        resize: as for `crops_of`.
        crop: as for `crops_of`.
        options: of PixelRows: flip, workers, budget, max_pixels.

    Returns:
        From ids of images to their PixelRows.
    """
    crops = crops_of(architecture, resize, crop)
    table = load_images(inputs.images)
    return lambda ids: PixelRows(table, ids, crops, **options)


def pixels_of(architecture: Mapping[str, Any]) -> Callable[[Image.Image], Tensor]:
    """A function from an RGB image to what the network of an architecture takes, a batch of one."""
    crops = crops_of(architecture)

    def pixels(image: Image.Image) -> Tensor:
        check_aspect(image)
        return torch.from_numpy(crops_as_extracted(crops, image))[None]

    return pixels


def crops_as_extracted(preprocessing: Preprocessing, image: Image.Image) -> Pixels:
    """What a network is shown of an image outside training.

    Args:
        preprocessing: of the network.
        image: RGB, of any size.

    Returns:
        The centre (3, S, S) uint8; with other views (C, 3, S, S), the crops whose features and
        those of their mirror images are averaged.
    """
    crops = preprocessing.crops(image)
    return crops[0] if preprocessing.views == "center" else crops


class PixelRows:
    """Crops of N images: rows (B,) to uint8 (B, 3, S, S), their channels as the network's.

    Called, it cuts as feature extraction does (`crops_as_extracted`); `augmented` cuts at random.

    Args:
        images: the corpus's table.
        image_ids: N of its images.
        preprocessing: resize and crop; normalisation is left to the network.
        flip: training may mirror a crop (wrong where captions say left and right).
        workers: decoding threads, 0 for none.
        budget: bytes of resized images that are kept.
        max_pixels: larger images are refused before they are decoded, None for no limit.

    Raises:
        WorkbenchError: images that are not in the table, or extremely long.
    """

    def __init__(
        self,
        images: pd.DataFrame,
        image_ids: Sequence[str],
        preprocessing: Preprocessing,
        flip: bool = True,
        workers: int = 0,
        budget: int = MEMORY_BUDGET,
        max_pixels: int | None = None,
    ) -> None:
        rows = pd.Index(images["image_id"]).get_indexer(pd.Index(image_ids))
        lost = [name for name, row in zip(image_ids, rows, strict=True) if row < 0]
        if lost:
            raise WorkbenchError(f"{len(lost)} images are not in the table: {listing(lost)}")
        table = images.iloc[rows]
        check_aspects(table)
        self.files = ImageFiles(table, max_pixels)
        self.preprocessing = preprocessing
        self.flip = flip
        self.left = budget
        self.kept: dict[int, Pixels] = {}
        self.lock = threading.Lock()
        self.pool = ThreadPoolExecutor(workers) if workers else None

    def __call__(
        self, rows: np.ndarray, generator: np.random.Generator | None = None
    ) -> torch.Tensor:
        if generator is not None:
            return self.augmented(rows, generator)
        images = map(Image.fromarray, self.resized(rows))
        return torch.from_numpy(
            np.stack([crops_as_extracted(self.preprocessing, image) for image in images])
        )

    def augmented(self, rows: np.ndarray, generator: np.random.Generator) -> torch.Tensor:
        """Random crops for training, each place equally likely, and mirrored or not.

        Args:
            rows: (B,) of the images.
            generator: it alone decides the crops, whatever the number of processes.

        Returns:
            (B, 3, S, S) uint8; of several processes each cuts its own share, and the rows of the
            others hold anything.
        """
        side = self.preprocessing.crop
        corners = generator.random((len(rows), 2))
        mirrored = generator.random(len(rows)) < 0.5
        crops = np.empty((len(rows), 3, side, side), np.uint8)
        # the other rows are another process's, and stay as they are
        span = ProcessGroup().local_rows(len(rows))
        for index, image in enumerate(self.resized(rows[span]), span.start):
            room = np.array(image.shape[:2]) - side + 1
            top, left = (corners[index] * room).astype(int)
            cut = image[top : top + side, left : left + side]
            cut = cut[:, ::-1] if self.flip and mirrored[index] else cut
            crops[index] = self.preprocessing.planes(cut)
        return torch.from_numpy(crops)

    def resized(self, rows: np.ndarray) -> list[Pixels]:
        """B images (H, W, 3) uint8 RGB, resized; WorkbenchError names all that cannot be had."""
        run = map if self.pool is None else self.pool.map
        results = list(run(self._resized, rows.tolist()))
        problems = [image.message for image in results if isinstance(image, WorkbenchError)]
        if problems:
            raise WorkbenchError(
                listing(problems, 5), "check the files, then run: dvc repro -f prepare_corpus"
            )
        return [image for image in results if not isinstance(image, WorkbenchError)]

    def _resized(self, row: int) -> Pixels | WorkbenchError:
        """One image from memory or from its file, or what is wrong with it."""
        image = self.kept.get(row)
        if image is not None:
            return image
        try:
            image = np.array(self.preprocessing.resized(self.files.open(row)))
        except WorkbenchError as error:  # returned, so that all of a batch can be told together
            return error
        with self.lock:
            if row not in self.kept and image.nbytes <= self.left:
                self.left -= image.nbytes
                self.kept[row] = image
        return image
