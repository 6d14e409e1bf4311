"""What sections of trained models share in params.yaml."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.runtime.section import Count, Natural, NonNegative, Positive, Section

Precision = Literal["fp32", "bf16"]
Reduction = Literal["sum", "mean"]
Patience = Count | None  # epochs without a better validation; None: all epochs are trained


class TrainingConfig(Section):
    epochs: Count
    patience: Patience = None
    batch_size: Annotated[int, Field(ge=2)]
    lr: Positive = 0.001
    lr_step: Count
    lr_factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    clip: NonNegative = 2.0
    precision: Precision = "fp32"
    warmup_epochs: Natural = 1
    reduction: Reduction = "sum"
