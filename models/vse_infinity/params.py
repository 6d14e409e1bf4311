"""VSE-infinity's section of params.yaml."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.runtime.section import Count
from pipeline.training.params import TrainingConfig, WordsConfig

Pool = Literal["gpo", "mean", "max"]
Share = Annotated[float, Field(ge=0, lt=1)]


class VSEInfinityConfig(WordsConfig):
    words: Literal["gru", "transformer"] = "gru"
    dim: Count = 128
    image_mlp: bool = True
    image_pool: Pool = "gpo"
    text_pool: Pool = "gpo"
    drop_regions: Share = 0.2
    drop_words: Share = 0.0
    training: TrainingConfig = TrainingConfig(epochs=5, batch_size=128, lr=0.001, lr_step=4)


CONFIG = VSEInfinityConfig
