"""The dual path's sections of params.yaml: its own and that of its classes."""

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
    WeightsSection,
    contradictions,
    wrong_value,
    wrong_whole,
)
from pipeline.training.params import Precision, Reduction


class PseudoClassesConfig(Section):
    """Classes of the instance loss."""

    source: Literal["instance", "kmeans"]
    k: Count
    initialisation: Literal["kmeans++", "random"]
    iterations: Count
    tolerance: NonNegative


class StageWeightsConfig(WeightsSection):
    """Weights of the loss terms in one phase of the dual path."""

    ranking: NonNegative
    image_instance: NonNegative
    text_instance: NonNegative


class DualPathPhaseConfig(Section):
    """A stretch of epochs with its trained parts, loss terms and learning rate."""

    name: Name
    epochs: Natural
    images: Literal["features", "pixels"]
    train: Annotated[
        tuple[Literal["text", "words", "image_head", "image_cnn"], ...],
        Field(min_length=1, strict=False),
    ]
    weights: StageWeightsConfig
    lr: Positive
    stop_below: Share

    @contradictions
    def _cnn_sees_pixels(self) -> Iterator[InitErrorDetails]:
        if self.images == "features" and "image_cnn" in self.train:
            yield wrong_whole("train", "image_cnn can be trained on images = 'pixels' only")


class DualPathTrainingConfig(Section):
    """Optimisation of the dual path; epochs and rates are those of its phases."""

    batch_size: Annotated[int, Field(ge=2)]
    optimiser: Literal["sgd", "adam"]
    lr_step: Count
    lr_factor: Annotated[float, Field(gt=0, le=1)]
    momentum: Annotated[float, Field(ge=0, lt=1)]
    weight_decay: NonNegative
    clip: NonNegative
    precision: Precision
    reduction: Reduction
    workers: Natural


class DualPathConfig(Section):
    """The dual-path network: sizes, alignment, instance loss, phases."""

    dim: Count
    hidden: Count
    dropout: Annotated[float, Field(ge=0, lt=1)]
    slots: Count
    alignment: Literal["shift", "left"]
    word_dim: Count
    word_vectors: Literal["random", "pretrained"]
    text_cnn: Literal["resnet18", "resnet50", "resnet152"]
    text_width: Count
    text_pool: Literal["max", "mean"]
    standardise_images: bool
    instance: Literal["separate", "sum"]
    sampled_classes: Natural
    margin: Positive
    resize: Count
    crop: Count
    flip: bool
    phases: Annotated[tuple[DualPathPhaseConfig, ...], Field(min_length=1, strict=False)]
    training: DualPathTrainingConfig

    @contradictions
    def _crop_and_phases(self) -> Iterator[InitErrorDetails]:
        if self.crop > self.resize:
            text = f"must not exceed dual_path.resize = {self.resize}"
            yield wrong_value("crop", self.crop, text)
        run = [phase for phase in self.phases if phase.epochs]
        if not run:
            yield wrong_whole("phases", "none has epochs; at least one must")
        elif "image_cnn" in run[0].train:
            yield wrong_whole(
                "phases",
                f"{run[0].name!r} comes first and trains image_cnn while the other parts are "
                "random; begin with a phase that leaves image_cnn out",
            )


CONFIG = DualPathConfig
