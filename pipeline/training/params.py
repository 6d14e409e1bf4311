"""What sections of trained models share in params.yaml."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from pipeline.runtime.section import (
    Count,
    Natural,
    NonNegative,
    Positive,
    Section,
    contradictions,
    wrong_value,
)

Precision = Literal["fp32", "bf16"]
Reduction = Literal["sum", "mean"]
Patience = Count | None  # epochs without a better validation; None: all epochs are trained


class TrainingConfig(Section):
    """Optimisation of one model."""

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

    @contradictions
    def _warm_up_leaves_epochs(self) -> Iterator[InitErrorDetails]:
        if self.warmup_epochs >= self.epochs:
            text = f"must be below epochs = {self.epochs}"
            yield wrong_value("warmup_epochs", self.warmup_epochs, text)
