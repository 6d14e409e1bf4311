"""Sections of what is made before models are trained: corpus, vocabulary, features, classes."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.sections.types import (
    Count,
    CountOrAdaptive,
    CountOrNone,
    Name,
    Natural,
    NonNegative,
    Positive,
    Section,
    Share,
)


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


class DetectorTraining(Section):
    """Optimisation of the detector."""

    epochs: Count
    images_per_epoch: Count | None
    batch_size: Count
    lr: Positive
    warmup: Natural
    weight_decay: NonNegative
    clip: NonNegative
    attribute_weight: NonNegative
    sampled: Count
    threshold: Share


Sides = Annotated[tuple[Positive, ...], Field(min_length=1, strict=False)]


class Detector(Section):
    """The object detector: whence its weights come, and the sizes of one trained here."""

    architecture: Literal["fpn_resnet18", "fpn_resnet50", "c4_resnet101"]
    weights: Name
    names: Name | None
    layers: Annotated[int, Field(ge=1, le=4)]
    channels: Count
    hidden: Count
    anchors: Annotated[tuple[Sides, ...], Field(min_length=1, strict=False)]
    ratios: Sides
    short_side: Natural
    long_side: Natural
    proposals: Count
    training: DetectorTraining


class Regions(Section):
    """Which regions of an image are kept, or whose file they come from."""

    source: Literal["detector", "tsv", "scan_npy", "butd_h5"]
    path: Name | None
    other_images: Literal["error", "skip"]
    boxes: CountOrAdaptive
    min: Count
    max: Count
    threshold: Share
    batch_size: Count
    workers: Natural


class PseudoClasses(Section):
    """Classes of the instance loss."""

    source: Literal["instance", "kmeans"]
    k: Count
    initialisation: Literal["kmeans++", "random"]
    iterations: Count
    tolerance: NonNegative
