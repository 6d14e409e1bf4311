"""VSE's section of params.yaml."""

from typing import Literal

from pipeline.runtime.section import Count, Positive, Section
from pipeline.training.params import TrainingConfig


class VSEConfig(Section):
    """The VSE model: widths, text encoder, word initialisation, optimisation."""

    dim: Count
    hidden: Count
    word_dim: Count
    text_encoder: Literal["gru", "lstm"]
    text_pool: Literal["last", "mean", "max"]
    word_vectors: Literal["random", "pretrained"]
    standardise_images: bool
    margin: Positive
    training: TrainingConfig


CONFIG = VSEConfig
