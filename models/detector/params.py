"""The detector's section of params.yaml."""

import os
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from pipeline.runtime.section import (
    Count,
    Name,
    Natural,
    NonNegative,
    Positive,
    Section,
    Share,
    contradictions,
    wrong_value,
    wrong_whole,
)


class DetectorTrainingConfig(Section):
    """Optimisation of the detector."""

    epochs: Count
    images_per_epoch: Count | None
    batch_size: Count
    lr: Positive
    warmup: Natural
    weight_decay: NonNegative
    clip: NonNegative
    attribute_weight: NonNegative
    sampled: Count
    threshold: Share


Sides = Annotated[tuple[Positive, ...], Field(min_length=1, strict=False)]


class DetectorConfig(Section):
    """The object detector: whence its weights come, and the sizes of one trained here."""

    architecture: Literal["fpn_resnet18", "fpn_resnet50", "c4_resnet101"]
    weights: Name
    names: Name | None
    layers: Annotated[int, Field(ge=1, le=4)]
    channels: Count
    hidden: Count
    anchors: Annotated[tuple[Sides, ...], Field(min_length=1, strict=False)]
    ratios: Sides
    short_side: Natural
    long_side: Natural
    proposals: Count
    training: DetectorTrainingConfig

    @contradictions
    def _files_and_anchors(self) -> Iterator[InitErrorDetails]:
        if self.weights == "train" and self.architecture == "c4_resnet101":
            yield wrong_value(
                "weights",
                self.weights,
                "the c4_resnet101 is not trained here; "
                "give the path of its weights, or train an fpn_resnet18",
            )
        if self.weights not in ("train", "random") and not os.path.isfile(self.weights):
            yield wrong_value(
                "weights",
                self.weights,
                "no such file; allowed are train, random or the path of a detector's weights",
            )
        if len(self.anchors) != self.layers:
            yield wrong_whole(
                "anchors",
                f"{len(self.anchors)} lists for detector.layers = {self.layers}; "
                "every layer needs a list of anchor sides",
            )
        if self.names is not None and not os.path.isdir(self.names):
            yield wrong_value("names", self.names, "no such folder")
