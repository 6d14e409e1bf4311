"""What sections of trained models share in params.yaml."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.runtime.section import Count, Natural, NonNegative, Positive, Section

Precision = Literal["fp32", "bf16"]


class RankingConfig(Section):
    """The ranking loss chosen by the top-level `loss`."""

    margin: Positive
    k: Count
    warmup_epochs: Natural
    reduction: Literal["sum", "mean"]


class TrainingConfig(Section):
    """Optimisation of one model."""

    epochs: Count
    batch_size: Annotated[int, Field(ge=2)]
    lr: Positive
    lr_step: Count
    lr_factor: Annotated[float, Field(gt=0, le=1)]
    clip: NonNegative
    precision: Precision
