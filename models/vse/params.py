"""VSE's section of params.yaml."""

from typing import Literal

from pipeline.runtime.section import Count, Positive, Section
from pipeline.training.params import TrainingConfig


class VSEConfig(Section):
    """The VSE model: widths, word initialisation, optimisation."""

    dim: Count
    hidden: Count
    word_dim: Count
    word_vectors: Literal["random", "pretrained"]
    standardise_images: bool
    margin: Positive
    training: TrainingConfig


CONFIG = VSEConfig
