"""The section of params.yaml of the network that sees the images."""

import os
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from pipeline.runtime.section import Count, Name, Natural, Section, contradictions, wrong_value


class ImageFeaturesConfig(Section):
    """Which network sees the images, and what is kept of it."""

    model: Name
    weights: Name
    layers: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]
    pool: Literal["mean", "max", "mean_max"]
    views: Literal["center", "flip", "ten_crop"]
    size: Annotated[int, Field(ge=32, le=1024)] | None
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
