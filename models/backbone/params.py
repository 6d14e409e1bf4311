"""The section of params.yaml of the network that sees the images."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from models.backbone.poolings import POOLINGS
from pipeline.runtime.section import (
    Count,
    EmbeddingFileConfig,
    Name,
    Natural,
    Section,
    Weights,
    cross_check,
    network_problems,
    one_of,
)

# What every network's images went through before these keys were there. Files name them where they
# differ from it, so that features made alike have the same bytes as ever.
UNNAMED = {"resize": "short_side", "normalisation": "torchvision"}

UNREAD = ("workers", "source", "file")  # by what makes the features

Layers = Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]


class ImageNetworkConfig(Section):
    model: Name = "resnet18"
    weights: Weights = "detector"
    layers: Layers = ("layer1", "layer2")
    pool: Annotated[str, one_of(POOLINGS)] = "mean_max"
    views: Literal["center", "flip", "ten_crop"] = "center"
    size: Annotated[int, Field(ge=32, le=1024)] | None = 128
    resize: Literal["short_side", "squash"] = "short_side"
    normalisation: Literal["torchvision", "caffe"] = "torchvision"
    precision: Literal["fp32", "bf16"] = "fp32"
    compile: bool = False
    batch_size: Count = 64
    workers: Natural = 2

    @cross_check
    def _network_is_one(self) -> Iterator[InitErrorDetails]:
        yield from network_problems(self, "image_features")


class ImageFeaturesConfig(ImageNetworkConfig):
    """Whether a network makes the features of images or a file has them, and which."""

    source: Literal["network", "file"] = "network"
    file: EmbeddingFileConfig = EmbeddingFileConfig()

    @cross_check
    def _file_is_there(self) -> Iterator[InitErrorDetails]:
        yield from self.file.path_problems("source", self.source)


def provenance(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What of the section image_features the values depend on, for the file's attributes: no number
    of workers and no path (the content of a weights file is recorded by digest). The values of
    UNNAMED go without saying."""
    kept = {
        name: value
        for name, value in settings.items()
        if name not in UNREAD and value != UNNAMED.get(name, ...)
    }
    if settings["weights"] not in ("random", "imagenet", "detector"):
        kept["weights"] = "file"
    return kept
