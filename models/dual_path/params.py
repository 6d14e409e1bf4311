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
    cross_check,
    wrong_value,
    wrong_whole,
)
from pipeline.training.params import Batch, SharedTraining, WordsConfig

Part = Literal["text", "words", "image_head", "image_cnn"]


class PseudoClassesConfig(Section):
    source: Literal["instance", "kmeans"] = "instance"
    k: Count = 300


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
        tuple[Part, ...],
        Field(min_length=1, strict=False),
    ]
    weights: StageWeightsConfig
    lr: Positive
    stop_below: Share

    @cross_check
    def _cnn_sees_pixels(self) -> Iterator[InitErrorDetails]:
        if self.images == "features" and "image_cnn" in self.train:
            yield wrong_whole("train", "image_cnn can be trained on images = 'pixels' only")


_EVERYTHING_BUT_THE_CNN: tuple[Part, ...] = ("text", "words", "image_head")
PHASES = (
    DualPathPhaseConfig(
        name="stage_1",
        epochs=30,
        images="features",
        train=_EVERYTHING_BUT_THE_CNN,
        weights=StageWeightsConfig(ranking=0.0, image_instance=1.0, text_instance=1.0),
        lr=0.002,
        stop_below=0.01,
    ),
    DualPathPhaseConfig(
        name="stage_2",
        epochs=1,
        images="pixels",
        train=(*_EVERYTHING_BUT_THE_CNN, "image_cnn"),
        weights=StageWeightsConfig(ranking=1.0, image_instance=1.0, text_instance=1.0),
        lr=0.0003,
        stop_below=0.0,
    ),
)


class DualPathTrainingConfig(SharedTraining):
    """Epochs and learning rates are those of the phases."""

    batch_size: Batch
    accumulate: Count
    lr_step: Count
    workers: Natural


class DualPathConfig(WordsConfig):
    dim: Count = 256
    hidden: Count = 256
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.2
    slots: Count = 32
    alignment: Literal["shift", "left"] = "shift"
    text_cnn: Literal["resnet18", "resnet50", "resnet152"] = "resnet18"
    text_width: Count = 32
    text_pool: Literal["max", "mean"] = "mean"
    instance: Literal["separate", "sum"] = "separate"
    sampled_classes: Natural = 0
    margin: Positive = 1.0
    resize: Count = 128
    crop: Count = 112
    flip: bool = False
    phases: Annotated[tuple[DualPathPhaseConfig, ...], Field(min_length=1, strict=False)] = PHASES
    training: DualPathTrainingConfig = DualPathTrainingConfig(
        batch_size=128, accumulate=1, lr_step=24, clip=0.0, reduction="mean", workers=2
    )

    @cross_check
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
        if (times := self.training.accumulate) > 1:
            for phase in (phase for phase in run if phase.weights.ranking):
                text = f"the ranking loss of {phase.name!r} takes its negatives from the batch, so "
                text += "small batches do not add up to a large one; raise batch_size"
                yield wrong_value("training.accumulate", times, text)
            if self.sampled_classes:
                text = f"must be 1 with dual_path.sampled_classes = {self.sampled_classes}, which "
                yield wrong_value("training.accumulate", times, text + "are drawn for each batch")


CONFIG = DualPathConfig
