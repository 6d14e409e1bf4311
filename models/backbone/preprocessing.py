"""From image files to what a network was trained to see.

`Preprocessing` resizes, crops and normalises as a network was published with
(`preprocessing_of`); `Pictures` reads batches of image files so, in worker processes.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset
from torchvision.models import get_model_weights

from models.backbone import timm_networks
from models.backbone.networks import NETWORKS
from pipeline.corpus.images import MAX_ASPECT
from pipeline.corpus.loading import ImageFiles, Rows
from pipeline.runtime.errors import WorkbenchError, listing

ReadPicture = Callable[[Image.Image], npt.NDArray[np.uint8]]

# Of ImageNet, per BGR channel, of values in [0, 255]: what VGG's authors subtracted in Caffe.
CAFFE_MEANS = (103.939, 116.779, 123.68)


@dataclass(frozen=True)
class Preprocessing:
    """From an RGB image to the inputs of a network, view by view."""

    resize: int  # length of the shorter side after resizing, pixels; of both sides if `squash`
    crop: int  # side of the square crops, pixels
    mean: tuple[float, ...]  # per channel of the crops, of values in [0, 1]
    std: tuple[float, ...]  # likewise
    resampling: Image.Resampling
    # center | flip (centre and its mirror image) | ten_crop (four corners and centre, and their
    # mirror images; Krizhevsky et al. 2012)
    views: str
    squash: bool = False  # images become squares, whole and out of proportion
    bgr: bool = False  # the crops' channels are BGR, not RGB

    @property
    def views_per_image(self) -> int:
        """How many views' features make the mean of an image."""
        return {"center": 1, "flip": 2, "ten_crop": 10}[self.views]

    def resized(self, image: Image.Image) -> Image.Image:
        """The image with its shorter side resized, or both."""
        size = self.resized_size(*image.size)
        return image if size == image.size else image.resize(size, self.resampling)

    def resized_size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height of an image after `resized`, pixels.

        Args:
            width: of the image, pixels.
            height: of the image, pixels.

        Returns:
            Width and height, pixels; one of them is `resize`, or both.
        """
        if self.squash:
            return self.resize, self.resize
        shorter = min(width, height)
        # Integer division as in torchvision, so that published features are met to the pixel.
        return self.resize * width // shorter, self.resize * height // shorter

    def seen(self, width: int, height: int) -> tuple[float, float, float, float]:
        """What the centre crop shows of an image: x1, y1, x2, y2 in pixels of the image.

        Args:
            width: of the image, pixels.
            height: of the image, pixels.

        Returns:
            The corners of the crop, from the upper left corner of the upright image, not rounded.
        """
        resized_width, resized_height = self.resized_size(width, height)
        left = round((resized_width - self.crop) / 2.0)
        top = round((resized_height - self.crop) / 2.0)
        across = width / resized_width
        down = height / resized_height
        right = left + self.crop
        bottom = top + self.crop
        return left * across, top * down, right * across, bottom * down

    def crops(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """(C, 3, S, S) bytes, C crops of an RGB image: the centre, or corners and centre."""
        image = self.resized(image)
        left = image.width - self.crop
        top = image.height - self.crop
        corners = [(round(left / 2.0), round(top / 2.0))]
        if self.views == "ten_crop":
            corners = [(0, 0), (left, 0), (0, top), (left, top), *corners]
        pixels = self.planes(np.asarray(image))
        cut = [pixels[:, y : y + self.crop, x : x + self.crop] for x, y in corners]
        return np.ascontiguousarray(np.stack(cut))

    def planes(self, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """RGB pixels (H, W, 3) as (3, H, W), in the order of the crops' channels."""
        return (pixels[..., ::-1] if self.bgr else pixels).transpose(2, 0, 1)

    def inputs(self, crops: Tensor) -> Iterator[Tensor]:
        """Each view of B images as (B, 3, S, S) float32, from their crops (B, C, 3, S, S) bytes."""
        mean = torch.tensor(self.mean, device=crops.device).view(3, 1, 1)
        std = torch.tensor(self.std, device=crops.device).view(3, 1, 1)
        for crop in crops.unbind(1):
            view = crop.float().div_(255).sub_(mean).div_(std)  # in place: new memory costs more
            yield view
            if self.views != "center":
                yield view.flip(-1)


def check_aspects(images: pd.DataFrame) -> None:
    """Refuse images much longer than wide: resizing the short side would make them terabytes."""
    longer = images[["width", "height"]].max(axis=1)
    extreme = longer > MAX_ASPECT * images[["width", "height"]].min(axis=1)
    if extreme.any():
        raise WorkbenchError(
            f"images more than {MAX_ASPECT} times as long as wide: "
            f"{listing(images.loc[extreme, 'path'], 5)}",
            "crop them or remove them from the corpus",
        )


def preprocessing_of(
    model: str,
    size: int | None,
    views: str,
    resize: str = "short_side",
    normalisation: str = "torchvision",
) -> Preprocessing:
    """The preprocessing that a classifier was published with, and the views wanted.

    `center` and `flip` see the whole shorter side of a given size (nothing is cut off an image of
    exactly that size); `ten_crop` keeps the model's ratio of resize to crop, as its crops need room
    to differ.

    Args:
        model: as in params.yaml.
        size: side of the crop, pixels; None for the model's own, such as 224 of 256.
        views: center | flip | ten_crop, as in Preprocessing.
        resize: short_side | squash (the whole image becomes a square).
        normalisation: torchvision (as published) | caffe (BGR, minus ImageNet's means).

    Returns:
        The sides after resizing and cropping, the views, and the means and deviations of values in
        0..1.
    """
    preset = _preset(model)
    length = preset.resize
    crop = preset.crop
    if size is not None:
        length = round(size * length / crop) if views == "ten_crop" else size
        crop = size
    chosen = replace(preset, resize=length, crop=crop, views=views, squash=resize == "squash")
    if normalisation != "caffe":
        return chosen
    means = tuple(mean / 255 for mean in CAFFE_MEANS)
    return replace(chosen, mean=means, std=(1 / 255,) * 3, bgr=True)


def _preset(model: str) -> Preprocessing:
    """The centre crop that a network was published with."""
    if model.startswith(timm_networks.PREFIX):
        config = timm_networks.data_config(model)
        crop = config["input_size"][-1]
        resize = math.floor(crop / config["crop_pct"])  # as timm's transforms_imagenet_eval
        mean = config["mean"]
        std = config["std"]
        resampling = config["interpolation"]
    else:
        preset: Any = published_weights(model).transforms()
        resize = preset.resize_size[0]
        crop = preset.crop_size[0]
        mean = preset.mean
        std = preset.std
        resampling = preset.interpolation.name
    return Preprocessing(
        resize=resize,
        crop=crop,
        mean=tuple(mean),
        std=tuple(std),
        resampling=Image.Resampling[resampling.upper()],
        views="center",
    )


def published_weights(model: str) -> Any:
    """torchvision's entry for a classifier's first ImageNet weights, which papers' features come
    from; ResNet-18's for NETWORKS."""
    entries = get_model_weights("resnet18" if model in NETWORKS else model)
    return entries.__members__.get("IMAGENET1K_V1", entries.DEFAULT)


@dataclass(frozen=True)
class PictureBatch:
    """A batch of decoded images, or what went wrong with some of them."""

    rows: Rows  # (B,) of the images
    pictures: Any  # B arrays of bytes, joined; None where there are problems
    problems: tuple[str, ...]  # a line for each image that could not be read


class Pictures(Dataset[PictureBatch]):
    """Reads batch after batch of images; runs in the worker processes.

    Args:
        files: the images.
        batches: the rows of each batch.
        read: from a picture to its array of bytes; by default all of it, (H, W, 3) RGB.
        join: of the arrays of a batch; by default a tuple, as pictures differ in size.
    """

    def __init__(
        self,
        files: ImageFiles,
        batches: list[Rows],
        read: ReadPicture = np.array,
        join: Callable[[list[npt.NDArray[np.uint8]]], Any] = tuple,
    ) -> None:
        self.files = files
        self.batches = batches
        self.read = read
        self.join = join

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> PictureBatch:
        pictures: list[npt.NDArray[np.uint8]] = []
        problems: list[str] = []
        for row in self.batches[number]:
            try:
                pictures.append(self.read(self.files.open(row)))
            except WorkbenchError as error:
                problems.append(error.message)
        joined = None if problems else self.join(pictures)
        return PictureBatch(self.batches[number], joined, tuple(problems))
