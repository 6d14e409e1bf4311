"""VSE's section of params.yaml."""

from typing import Literal

from pipeline.runtime.section import Count
from pipeline.training.params import TrainingConfig, WordsConfig


class VSEConfig(WordsConfig):
    dim: Count = 256
    hidden: Count = 256
    text_encoder: Literal["gru", "lstm"] = "gru"
    text_pool: Literal["last", "mean", "max", "gpo"] = "last"
    training: TrainingConfig = TrainingConfig(epochs=9, batch_size=128, lr=0.001, lr_step=6)


CONFIG = VSEConfig
