"""The section of params.yaml of the network that sees the images."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.runtime.section import Count, Name, Natural, Section


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
