"""SCAN's section of params.yaml."""

from typing import Literal

from pipeline.runtime.section import Count, Positive
from pipeline.training.params import TrainingConfig, WordsConfig


class SCANConfig(WordsConfig):
    dim: Count = 128
    direction: Literal["t2i", "i2t"] = "t2i"
    pooling: Literal["mean", "lse"] = "mean"
    temperature: Positive = 9.0
    lse: Positive = 6.0
    position_gate: bool = False
    training: TrainingConfig = TrainingConfig(epochs=3, batch_size=64, lr=0.001, lr_step=2)


CONFIG = SCANConfig
