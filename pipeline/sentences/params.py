"""Section of params.yaml: one vector per caption."""

from typing import Literal

from pipeline.runtime.section import Count, CountOrNone, Name, Section


class MeanVectorConfig(Section):
    """Sentences as the mean of their words' vectors."""

    pca: CountOrNone


class TfIdfConfig(Section):
    """Sentences as tf-idf weights of their lemmas."""

    lemmatiser: Literal["wordnet", "lemminflect", "none"]
    wordnet: Name | None
    stop_words: Name
    terms: Count
    pca: CountOrNone


class FisherConfig(Section):
    """Sentences as Fisher vectors of their words' vectors."""

    mixture: Literal["gmm", "lmm", "hglmm"]
    centres: Count
    ica: CountOrNone
    iterations: Count
    pca: CountOrNone


class SentencesConfig(Section):
    """One vector per caption."""

    encoding: Literal["mean_vector", "tfidf", "fisher"]
    unknown: Literal["error", "zero"]
    mean_vector: MeanVectorConfig
    tfidf: TfIdfConfig
    fisher: FisherConfig
