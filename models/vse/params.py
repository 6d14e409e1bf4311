"""VSE's section of params.yaml."""

from typing import Literal

from pipeline.runtime.section import Count, Positive, Section
from pipeline.training.params import TrainingConfig


class VSEConfig(Section):
    dim: Count = 256
    hidden: Count = 256
    word_dim: Count = 100
    text_encoder: Literal["gru", "lstm"] = "gru"
    text_pool: Literal["last", "mean", "max", "gpo"] = "last"
    word_vectors: Literal["random", "pretrained"] = "random"
    standardise_images: bool = True
    margin: Positive = 0.2
    training: TrainingConfig = TrainingConfig(epochs=9, batch_size=128, lr=0.001, lr_step=6)


CONFIG = VSEConfig
