"""Sections of the models and of the loss they share."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.sections.types import Count, Name, Natural, NonNegative, Positive, Section, Share

Precision = Literal["fp32", "bf16"]


class Ranking(Section):
    """The ranking loss chosen by the top-level `loss`."""

    margin: Positive
    k: Count
    warmup_epochs: Natural
    reduction: Literal["sum", "mean"]


class Training(Section):
    """Optimisation of one model."""

    epochs: Count
    batch_size: Annotated[int, Field(ge=2)]
    lr: Positive
    lr_step: Count
    lr_factor: Annotated[float, Field(gt=0, le=1)]
    clip: NonNegative
    precision: Precision


class VSE(Section):
    """The VSE model: widths, word initialisation, optimisation."""

    dim: Count
    hidden: Count
    word_dim: Count
    word_vectors: Literal["random", "pretrained"]
    standardise_images: bool
    training: Training


class TermWeights(Section):
    """Weights of the four terms of the two-branch loss (Wang et al. 2016, eq. 5)."""

    image_to_sentence: NonNegative
    sentence_to_image: NonNegative
    image_image: NonNegative
    sentence_sentence: NonNegative


class TwoBranchTraining(Training):
    """Optimisation by SGD with momentum, or by Adam."""

    optimiser: Literal["sgd", "adam"]
    momentum: Annotated[float, Field(ge=0, lt=1)]
    weight_decay: NonNegative


class TwoBranch(Section):
    """The two-branch network: widths, loss terms, optimisation."""

    branches: Literal["linear", "nonlinear"]
    hidden: Count
    dim: Count
    dropout: Annotated[float, Field(ge=0, lt=1)]
    batch_norm: bool
    standardise_images: bool
    standardise_sentences: bool
    margin: Positive
    weights: TermWeights
    structure_k: Count
    training: TwoBranchTraining


class CCA(Section):
    """Canonical correlation analysis."""

    dim: Count
    power: NonNegative
    regularisation: NonNegative


class StageWeights(Section):
    """Weights of the loss terms in one phase of the dual path."""

    ranking: NonNegative
    image_instance: NonNegative
    text_instance: NonNegative


class DualPathPhase(Section):
    """A stretch of epochs with its trained parts, loss terms and learning rate."""

    name: Name
    epochs: Natural
    images: Literal["features", "pixels"]
    train: Annotated[
        tuple[Literal["text", "words", "image_head", "image_cnn"], ...],
        Field(min_length=1, strict=False),
    ]
    weights: StageWeights
    lr: Positive
    stop_below: Share


class DualPathTraining(Section):
    """Optimisation of the dual path; epochs and rates are those of its phases."""

    batch_size: Annotated[int, Field(ge=2)]
    optimiser: Literal["sgd", "adam"]
    lr_step: Count
    lr_factor: Annotated[float, Field(gt=0, le=1)]
    momentum: Annotated[float, Field(ge=0, lt=1)]
    weight_decay: NonNegative
    clip: NonNegative
    precision: Precision
    workers: Natural


class DualPath(Section):
    """The dual-path network: sizes, alignment, instance loss, phases."""

    dim: Count
    hidden: Count
    dropout: Annotated[float, Field(ge=0, lt=1)]
    slots: Count
    alignment: Literal["shift", "left"]
    word_dim: Count
    word_vectors: Literal["random", "pretrained"]
    text_cnn: Literal["resnet18", "resnet50", "resnet152"]
    text_width: Count
    text_pool: Literal["max", "mean"]
    standardise_images: bool
    instance: Literal["separate", "sum"]
    sampled_classes: Natural
    margin: Positive
    resize: Count
    crop: Count
    flip: bool
    phases: Annotated[tuple[DualPathPhase, ...], Field(min_length=1, strict=False)]
    training: DualPathTraining


class SCAN(Section):
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
    training: Training


class DPRNNEpochs(Section):
    """Epochs of the three phases of DP-RNN's training."""

    matching: Natural
    recurrent: Natural
    all: Natural


class DPRNNTraining(Section):
    """Optimisation of DP-RNN; its epochs are those of its phases."""

    epochs: DPRNNEpochs
    batch_size: Annotated[int, Field(ge=2)]
    lr: Positive
    lr_step: Count
    lr_factor: Annotated[float, Field(gt=0, le=1)]
    clip: NonNegative
    precision: Precision


class DPRNN(Section):
    """DP-RNN: widths, matching, recurrence and its early selection, optimisation."""

    dim: Count
    word_dim: Count
    word_vectors: Literal["random", "pretrained"]
    orientation: Literal["both", "word", "object"]
    matching: Literal["multi_attention", "scan"]
    recurrent: bool
    order: Literal["attended", "random"]
    temperature_objects: Positive
    temperature_words: Positive
    beta_words: NonNegative
    beta_objects: NonNegative
    candidates: Count
    validation_shortlist: Count
    position_gate: bool
    standardise_images: bool
    training: DPRNNTraining
