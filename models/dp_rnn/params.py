"""DP-RNN's section of params.yaml."""

from collections.abc import Iterator
from typing import Literal

from pydantic_core import InitErrorDetails

from pipeline.runtime.section import (
    Count,
    Natural,
    NonNegative,
    Positive,
    Section,
    cross_check,
    wrong_value,
    wrong_whole,
)
from pipeline.training.params import Batch, CommonTraining, WordsConfig


class DPRNNEpochsConfig(Section):
    matching: Natural = 2
    recurrent: Natural = 1
    all: Natural = 1


class DPRNNTrainingConfig(CommonTraining):
    epochs: DPRNNEpochsConfig
    batch_size: Batch
    lr: Positive
    lr_step: Count


class DPRNNConfig(WordsConfig):
    dim: Count = 64
    orientation: Literal["both", "word", "object"] = "both"
    matching: Literal["multi_attention", "scan"] = "multi_attention"
    vectors: Literal["raw", "unit"] = "raw"
    pooling: Literal["mean", "lse", "mean_lse"] = "mean"
    lse: Positive = 6.0
    recurrent: bool = True
    order: Literal["attended", "random"] = "attended"
    temperature_objects: Positive = 9.0
    temperature_words: Positive = 4.0
    beta_words: NonNegative = 5.0
    beta_objects: NonNegative = 5.0
    candidates: Count = 5
    validation_shortlist: Count = 30
    position_gate: bool = True
    training: DPRNNTrainingConfig = DPRNNTrainingConfig(
        epochs=DPRNNEpochsConfig(), batch_size=64, lr=0.001, lr_step=5
    )

    @cross_check
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

    @cross_check
    def _weights_are_those_of_a_mean(self) -> Iterator[InitErrorDetails]:
        if self.pooling != "mean" and self.matching == "multi_attention":
            yield wrong_value(
                "pooling",
                self.pooling,
                "dp_rnn.matching = 'multi_attention' adds up by its weights (eq. 12); "
                "set pooling to mean or matching to scan",
            )


CONFIG = DPRNNConfig
