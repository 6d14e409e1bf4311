"""The section `training` of params.yaml, and what sections of trained models have of it."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.runtime.section import Count, Natural, NonNegative, Positive, Section

Precision = Literal["fp32", "bf16"]
Batch = Annotated[int, Field(ge=2)]


class SharedTraining(Section):
    """What every training reads. A model's section has the keys that its default names; the others
    come from the section `training` where params.yaml is read (stages.params.with_defaults)."""

    optimiser: Literal["adam", "adamw", "sgd"] = "adam"
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    weight_decay: NonNegative = 0.0
    schedule: Literal["step", "cosine"] = "step"
    lr_factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    lr_warmup_epochs: Natural = 0
    clip: NonNegative = 2.0
    precision: Precision = "fp32"
    patience: Count | None = None  # epochs without a better validation; None: all epochs
    reduction: Literal["sum", "mean"] = "sum"


class CommonTraining(SharedTraining):
    """The section `training`."""

    warmup_epochs: Natural = 1


class TrainingConfig(CommonTraining):
    """The `training` of a model with one learning rate."""

    epochs: Count
    batch_size: Batch
    lr: Positive = 0.001
    lr_step: Count


class WordsConfig(Section):
    """What the sections of models that read words have in common."""

    word_dim: Count = 100
    word_vectors: Literal["random", "pretrained"] = "random"
    standardise_images: bool = True
    margin: Positive = 0.2
