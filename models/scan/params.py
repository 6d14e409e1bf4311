"""SCAN's section of params.yaml."""

from typing import Literal

from pipeline.runtime.section import Count, Positive, Section
from pipeline.training.params import TrainingConfig


class SCANConfig(Section):
    """SCAN: widths, cross attention, optimisation."""

    dim: Count
    word_dim: Count
    word_vectors: Literal["random", "pretrained"]
    direction: Literal["t2i", "i2t"]
    pooling: Literal["mean", "lse"]
    temperature: Positive
    lse: Positive
    position_gate: bool
    standardise_images: bool
    margin: Positive
    training: TrainingConfig


CONFIG = SCANConfig
