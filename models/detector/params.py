"""The detector's section of params.yaml."""

import os
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from pipeline.runtime.section import (
    Count,
    Name,
    NamesFile,
    Natural,
    NonNegative,
    PathOrNone,
    Positive,
    Section,
    cross_check,
    not_found,
    wrong_value,
)


class DetectorTrainingConfig(Section):
    epochs: Count = 2
    images_per_epoch: Count | None = 1200
    batch_size: Count = 4
    lr: Positive = 0.001
    warmup: Natural = 50
    clip: NonNegative = 10.0
    sampled: Count = 32


Sides = Annotated[tuple[Positive, ...], Field(min_length=1, strict=False)]
# of each stage of the ResNet that is kept
Anchors = Annotated[tuple[Sides, ...], Field(min_length=1, max_length=4, strict=False)]


class DetectorConfig(Section):
    """The object detector: whence its weights come, and the sizes of one trained here."""

    architecture: Literal["fpn_resnet18", "fpn_resnet50", "c4_resnet101"] = "fpn_resnet18"
    weights: Annotated[Name, NamesFile(("train", "random"))] = "train"
    names: PathOrNone = None
    channels: Count = 64
    hidden: Count = 256
    anchors: Anchors = ((16.0, 22.0), (28.0, 40.0))
    ratios: Sides = (1.0,)
    short_side: Natural = 0
    long_side: Natural = 0
    proposals: Count = 100
    training: DetectorTrainingConfig = DetectorTrainingConfig()

    @cross_check
    def _files_and_anchors(self) -> Iterator[InitErrorDetails]:
        if self.weights == "train" and self.architecture == "c4_resnet101":
            way_out = "give the path of its weights, or train an fpn_resnet18"
            problem = f"the c4_resnet101 is not trained here; {way_out}"
            yield wrong_value("weights", self.weights, problem)
        if self.weights not in ("train", "random") and not os.path.isfile(self.weights):
            problem = f"{not_found(self.weights, 'file')}; "
            problem += "allowed are train, random or the path of a detector's weights"
            yield wrong_value("weights", self.weights, problem)
        if len({len(sides) for sides in self.anchors}) > 1:
            problem = "every list needs the same number of sides"
            yield wrong_value("anchors", self.anchors, problem)
        if self.names is not None and not os.path.isdir(self.names):
            yield wrong_value("names", self.names, not_found(self.names, "folder"))
