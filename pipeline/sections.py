"""The sections of params.yaml as frozen types: which keys there are and what each may hold."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator
from pydantic_core import PydanticCustomError


def _count_or_none(value: Any) -> int | None:
    if value == "none" and isinstance(value, str):
        return None
    if type(value) is int and value >= 1:
        return value
    raise PydanticCustomError("count_or_none", "must be a whole number from 1, or none")


Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(min_length=1)]
CountOrNone = Annotated[int | None, PlainValidator(_count_or_none)]


class Section(BaseModel):
    """A frozen mapping of params.yaml without implicit conversions and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Runtime(Section):
    """Where a run takes place; not part of what it computes."""

    device: Literal["auto", "cpu", "cuda"]
    threads: Count


class Corpus(Section):
    """How the files under `raw` are read and checked."""

    annotations: Name | None
    images: Name | None
    restval: Literal["train", "drop"]
    split_files: Name | None
    val_images: Count
    test_images: Count
    skip_bad_images: bool
    max_megapixels: Positive


class Shapes(Section):
    """Sizes of the rendered built-in world."""

    train: Count
    val: Count
    test: Count
    image_size: Annotated[int, Field(ge=32, le=1024)]
    captions_per_image: Annotated[int, Field(ge=1, le=20)]
    near_duplicates: Share


class Vocabulary(Section):
    """Words and their vectors."""

    source: Literal["train", "word2vec_bin", "word2vec_text", "gensim"]
    vectors: Name | None
    dim: Count
    window: Count
    epochs: Count
    min_count: Count
    known_words_only: bool
    other_cases: bool
    background: Natural
    sentence_markers: bool


class MeanVector(Section):
    """Sentences as the mean of their words' vectors."""

    pca: CountOrNone


class TfIdf(Section):
    """Sentences as tf-idf weights of their lemmas."""

    lemmatiser: Literal["wordnet", "lemminflect", "none"]
    wordnet: Name | None
    stop_words: Name
    terms: Count
    pca: CountOrNone


class Fisher(Section):
    """Sentences as Fisher vectors of their words' vectors."""

    mixture: Literal["gmm", "lmm", "hglmm"]
    centres: Count
    ica: CountOrNone
    iterations: Count
    pca: CountOrNone


class Sentences(Section):
    """One vector per caption."""

    encoding: Literal["mean_vector", "tfidf", "fisher"]
    unknown: Literal["error", "zero"]
    mean_vector: MeanVector
    tfidf: TfIdf
    fisher: Fisher


class ImageFeatures(Section):
    """Which network sees the images, and what is kept of it."""

    model: Name
    weights: Name
    layers: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]
    pool: Literal["mean", "max", "mean_max"]
    views: Literal["center", "flip", "ten_crop"]
    size: Annotated[int, Field(ge=32, le=1024)] | None
    precision: Literal["fp32", "bf16"]
    compile: bool
    batch_size: Count
    workers: Natural


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
    precision: Literal["fp32", "bf16"]


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


class Inference(Section):
    """The inference criterion that is evaluated beside the model's own scores."""

    criterion: Literal[
        "naive",
        "inverted_softmax",
        "csls",
        "dual_softmax",
        "querybank",
        "sinkhorn",
        "hungarian",
    ]
    beta: Positive
    k: Count
    iterations: Count


class Evaluation(Section):
    """Protocol and confidence intervals."""

    folds: Count
    bootstrap: Natural
    confidence: Annotated[float, Field(gt=0, lt=1)]


class Params(Section):
    """The whole of params.yaml."""

    loss: Literal["sum_margin", "max_margin", "knn_margin"]
    dataset: Literal["shapes", "karpathy_json", "captions_csv"]
    raw: Name
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    runtime: Runtime
    corpus: Corpus
    shapes: Shapes
    vocabulary: Vocabulary
    image_features: ImageFeatures
    sentences: Sentences
    ranking: Ranking
    vse: VSE
    two_branch: TwoBranch
    cca: CCA
    inference: Inference
    evaluation: Evaluation
