"""DP-RNN's section of params.yaml."""

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
    contradictions,
    wrong_value,
    wrong_whole,
)
from pipeline.training.params import Precision, Reduction


class DPRNNEpochsConfig(Section):
    """Epochs of the three phases of DP-RNN's training."""

    matching: Natural
    recurrent: Natural
    all: Natural


class DPRNNTrainingConfig(Section):
    """Optimisation of DP-RNN; its epochs are those of its phases."""

    epochs: DPRNNEpochsConfig
    batch_size: Annotated[int, Field(ge=2)]
    lr: Positive
    lr_step: Count
    lr_factor: Annotated[float, Field(gt=0, le=1)]
    clip: NonNegative
    precision: Precision
    warmup_epochs: Natural
    reduction: Reduction


class DPRNNConfig(Section):
    """DP-RNN: widths, matching, recurrence and its early selection, optimisation."""

    dim: Count
    word_dim: Count
    word_vectors: Literal["random", "pretrained"]
    orientation: Literal["both", "word", "object"]
    matching: Literal["multi_attention", "scan"]
    vectors: Literal["raw", "unit"]
    pooling: Literal["mean", "lse"]
    lse: Positive
    recurrent: bool
    order: Literal["attended", "random"]
    temperature_objects: Positive
    temperature_words: Positive
    beta_words: NonNegative
    beta_objects: NonNegative
    candidates: Count
    validation_shortlist: Count
    position_gate: bool
    standardise_images: bool
    margin: Positive
    training: DPRNNTrainingConfig

    @contradictions
    def _what_is_used_is_trained(self) -> Iterator[InitErrorDetails]:
        epochs = self.training.epochs
        if self.recurrent and epochs.recurrent == epochs.all == 0:
            yield wrong_whole(
                "training.epochs",
                "recurrent and all are 0, but dp_rnn.recurrent = True; give one of them epochs or "
                "set dp_rnn.recurrent to false",
            )
        if not self.recurrent and epochs.matching == epochs.all == 0:
            yield wrong_whole(
                "training.epochs", "matching and all are 0; one of them must have epochs"
            )

    @contradictions
    def _weights_are_those_of_a_mean(self) -> Iterator[InitErrorDetails]:
        if self.pooling == "lse" and self.matching == "multi_attention":
            yield wrong_value(
                "pooling",
                "lse",
                "dp_rnn.matching = 'multi_attention' adds up by its weights (eq. 12); "
                "set pooling to mean or matching to scan",
            )


CONFIG = DPRNNConfig
