"""The two-branch network's section of params.yaml."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from pipeline.runtime.section import (
    Count,
    Natural,
    NonNegative,
    Positive,
    Section,
    WeightsSection,
    contradictions,
    wrong_value,
)
from pipeline.training.params import TrainingConfig


class TermWeightsConfig(WeightsSection):
    """Weights of the four terms of the two-branch loss (Wang et al. 2016, eq. 5)."""

    image_to_sentence: NonNegative
    sentence_to_image: NonNegative
    image_image: NonNegative
    sentence_sentence: NonNegative


class TwoBranchTrainingConfig(TrainingConfig):
    """Optimisation by SGD with momentum, or by Adam."""

    optimiser: Literal["sgd", "adam"]
    momentum: Annotated[float, Field(ge=0, lt=1)]
    weight_decay: NonNegative


class FineTuningConfig(Section):
    """Epochs from pixels, in which the network behind the image features is trained, too."""

    epochs: Natural
    lr: Positive
    batch_size: Annotated[int, Field(ge=2)]
    resize: Count
    crop: Count
    flip: bool
    workers: Natural

    @contradictions
    def _crop_fits(self) -> Iterator[InitErrorDetails]:
        if self.crop > self.resize:
            text = f"must not exceed two_branch.fine_tuning.resize = {self.resize}"
            yield wrong_value("crop", self.crop, text)


class VectorBranchesConfig(Section):
    """Two branches on fixed vectors: widths, loss terms, optimisation."""

    branches: Literal["linear", "nonlinear"]
    hidden: Count
    dim: Count
    dropout: Annotated[float, Field(ge=0, lt=1)]
    batch_norm: bool
    standardise_images: bool
    standardise_sentences: bool
    margin: Positive
    weights: TermWeightsConfig
    structure_k: Count
    training: TwoBranchTrainingConfig


class TwoBranchConfig(VectorBranchesConfig):
    """The two-branch network on images and captions."""

    fine_tuning: FineTuningConfig


CONFIG = TwoBranchConfig
