"""The two-branch network's section of params.yaml."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.runtime.section import Count, NonNegative, Positive, Section, WeightsSection
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


class TwoBranchConfig(Section):
    """The two-branch network: widths, loss terms, optimisation."""

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


CONFIG = TwoBranchConfig
