"""SCAN's section of params.yaml."""

from typing import Literal

from pipeline.runtime.section import Count, Positive, Section
from pipeline.training.params import TrainingConfig


class SCANConfig(Section):
    dim: Count = 128
    word_dim: Count = 100
    word_vectors: Literal["random", "pretrained"] = "random"
    direction: Literal["t2i", "i2t"] = "t2i"
    pooling: Literal["mean", "lse"] = "mean"
    temperature: Positive = 9.0
    lse: Positive = 6.0
    position_gate: bool = False
    standardise_images: bool = True
    margin: Positive = 0.2
    training: TrainingConfig = TrainingConfig(epochs=3, batch_size=64, lr=0.001, lr_step=2)


CONFIG = SCANConfig
