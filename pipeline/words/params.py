"""Section of params.yaml: words and their vectors."""

from typing import Literal

from pipeline.runtime.section import Count, Name, Natural, Section


class VocabularyConfig(Section):
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
