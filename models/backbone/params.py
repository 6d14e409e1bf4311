"""The section of params.yaml of the network that sees the images."""

import os
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from pipeline.runtime.section import Count, Name, Natural, Section, contradictions, wrong_value

# What every network's images went through before these keys were there. Files name them where they
# differ from it, so that features made alike have the same bytes as ever.
UNNAMED = {"resize": "short_side", "normalisation": "torchvision"}


class ImageFeaturesConfig(Section):
    """Which network sees the images, and what is kept of it."""

    model: Name
    weights: Name
    layers: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]
    pool: Literal["mean", "max", "mean_max"]
    views: Literal["center", "flip", "ten_crop"]
    size: Annotated[int, Field(ge=32, le=1024)] | None
    resize: Literal["short_side", "squash"]
    normalisation: Literal["torchvision", "caffe"]
    precision: Literal["fp32", "bf16"]
    compile: bool
    batch_size: Count
    workers: Natural

    @contradictions
    def _weights_are_there(self) -> Iterator[InitErrorDetails]:
        named = self.weights in ("detector", "random", "imagenet")
        if not named and not os.path.isfile(self.weights):
            yield wrong_value(
                "weights",
                self.weights,
                "no such file; allowed are detector, random, imagenet or the path of a state dict",
            )

    @contradictions
    def _normalisation_is_the_weights(self) -> Iterator[InitErrorDetails]:
        if self.normalisation == "caffe" and self.weights in ("detector", "imagenet"):
            yield wrong_value(
                "normalisation",
                "caffe",
                f"image_features.weights = {self.weights!r} learnt from torchvision's; "
                "caffe is for weights that were converted from Caffe",
            )
