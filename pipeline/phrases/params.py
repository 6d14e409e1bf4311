"""Section of params.yaml: phrases, the boxes they are looked for in, and their vectors."""

import os
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from pipeline.runtime.section import (
    Count,
    Name,
    Natural,
    PathOrNone,
    Section,
    Share,
    Weights,
    cross_check,
    network_problems,
    not_found,
    wrong_value,
)

BOX_FILES = (".npz", ".h5", ".hdf5", ".txt", ".mat")


class ProposalsConfig(Section):
    """The boxes of an image that phrases are looked for in."""

    source: Literal["detector", "file"] = "detector"
    path: PathOrNone = None
    order: Literal["xyxy", "xywh", "yxyx"] = "xyxy"
    origin: Annotated[int, Field(ge=0, le=1)] = 0
    number: Count = 100
    other_images: Literal["error", "skip"] = "error"

    @cross_check
    def _file_is_there(self) -> Iterator[InitErrorDetails]:
        if self.source == "detector":
            if self.path is not None:
                yield wrong_value("path", self.path, "must be null when source is 'detector'")
        elif self.path is None:
            yield wrong_value("path", None, "source 'file' needs the path of a file or folder")
        elif not os.path.exists(self.path):
            yield wrong_value("path", self.path, not_found(self.path))
        elif not os.path.isdir(self.path) and not self.path.endswith(BOX_FILES):
            allowed = f"allowed are folders and files that end in {', '.join(BOX_FILES)}"
            yield wrong_value("path", self.path, allowed)


class BoxNetworkConfig(Section):
    """An image network whose feature maps boxes are pooled from."""

    model: Name = "resnet18"
    weights: Weights = "detector"
    layers: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)] = ("layer1", "layer2")
    pool: Name = "mean"  # of models/backbone/poolings, or fc7: stages.params knows which there are
    short_side: Count = 128
    long_side: Natural = 0
    normalisation: Literal["torchvision", "caffe"] = "torchvision"

    @cross_check
    def _long_side_is_longer(self) -> Iterator[InitErrorDetails]:
        if 0 < self.long_side < self.short_side:
            problem = f"must be 0 (no limit) or at least short_side, which is {self.short_side}"
            yield wrong_value("long_side", self.long_side, problem)


class BoxFeaturesConfig(Section):
    """How boxes become vectors: by the detector's head, or pooled from an image network's maps."""

    source: Literal["detector", "network"] = "detector"
    network: BoxNetworkConfig = BoxNetworkConfig()
    batch_size: Count = 16
    workers: Natural = 2

    @cross_check
    def _network_is_one(self) -> Iterator[InitErrorDetails]:
        if self.source == "network":
            for problem in network_problems(self.network, "phrases.features.network"):
                yield problem | {"loc": ("network", *problem["loc"])}


class PhrasesConfig(Section):
    """Phrases: whence they come, and what they are looked for in."""

    source: Literal["corpus", "flickr30k_entities", "none"] = "corpus"
    path: Name | None = None
    splits: Literal["lists", "corpus"] = "lists"
    train_images: Count | None = 800
    proposals: ProposalsConfig = ProposalsConfig()
    features: BoxFeaturesConfig = BoxFeaturesConfig()
    nms: Share = 0.3
