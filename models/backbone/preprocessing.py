"""From a decoded image to what a network was trained to see: resize, crops, normalisation."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from PIL import Image
from torch import Tensor
from torchvision.models import get_model_weights

from models.backbone import timm_networks
from models.backbone.networks import NETWORKS
from pipeline.corpus.images import MAX_ASPECT
from pipeline.runtime.errors import WorkbenchError, listing

# Of ImageNet, per BGR channel, of values in [0, 255]: what VGG's authors subtracted in Caffe.
CAFFE_MEANS = (103.939, 116.779, 123.68)


@dataclass(frozen=True)
class Preprocessing:
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
        return {"center": 1, "flip": 2, "ten_crop": 10}[self.views]

    def resized(self, image: Image.Image) -> Image.Image:
        """The image with its shorter side resized, or both."""
        size = self.resized_size(*image.size)
        return image if size == image.size else image.resize(size, self.resampling)

    def resized_size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height that `resized` gives an image of a width and height, pixels."""
        shorter = min(width, height)
        # Integer division as in torchvision, so that published features are met to the pixel.
        size = (self.resize * width // shorter, self.resize * height // shorter)
        return (self.resize, self.resize) if self.squash else size

    def seen(self, width: int, height: int) -> tuple[float, float, float, float]:
        """What the centre crop shows of an image, given its sides: x1, y1, x2, y2 in its pixels."""
        resized = self.resized_size(width, height)
        left, top = (round((side - self.crop) / 2.0) for side in resized)
        across, down = width / resized[0], height / resized[1]
        corner = left * across, top * down
        return *corner, (left + self.crop) * across, (top + self.crop) * down

    def crops(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """(C, 3, S, S) bytes, C crops of an RGB image: the centre, or corners and centre."""
        image = self.resized(image)
        left, top = image.width - self.crop, image.height - self.crop
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


def check_aspect(images: pd.DataFrame) -> None:
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

    `center` and `flip` see the whole shorter side of a given size; `ten_crop` keeps the model's
    ratio of resize to crop. size: of the crop, pixels; None for the model's own. resize: short_side
    | squash. normalisation: torchvision (as published) | caffe (BGR, minus ImageNet's means).
    """
    preset = _preset(model)
    length, crop = preset.resize, preset.crop
    if size is not None:
        length = round(size * length / crop) if views == "ten_crop" else size
        crop = size
    caffe = normalisation == "caffe"
    return replace(
        preset,
        resize=length,
        crop=crop,
        mean=tuple(mean / 255 for mean in CAFFE_MEANS) if caffe else preset.mean,
        std=(1 / 255,) * 3 if caffe else preset.std,
        views=views,
        squash=resize == "squash",
        bgr=caffe,
    )


def _preset(model: str) -> Preprocessing:
    """The centre crop that a network was published with."""
    if model.startswith(timm_networks.PREFIX):
        config = timm_networks.data_config(model)
        crop = config["input_size"][-1]
        resize = math.floor(crop / config["crop_pct"])  # as timm's transforms_imagenet_eval
        mean, std, resampling = (config[key] for key in ("mean", "std", "interpolation"))
    else:
        preset: Any = published_weights(model).transforms()
        resize, crop = preset.resize_size[0], preset.crop_size[0]
        mean, std, resampling = preset.mean, preset.std, preset.interpolation.name
    sampling = Image.Resampling[resampling.upper()]
    return Preprocessing(resize, crop, tuple(mean), tuple(std), sampling, views="center")


def published_weights(model: str) -> Any:
    """torchvision's entry for a classifier's first ImageNet weights, which papers' features come
    from; ResNet-18's for NETWORKS."""
    entries = get_model_weights("resnet18" if model in NETWORKS else model)
    return entries.__members__.get("IMAGENET1K_V1", entries.DEFAULT)
