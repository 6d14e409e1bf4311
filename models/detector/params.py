"""The detector's section of params.yaml."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.runtime.section import Count, Name, Natural, NonNegative, Positive, Section, Share


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
