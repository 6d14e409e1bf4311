"""Section of params.yaml: words and their vectors."""

import os
from collections.abc import Iterator
from typing import Literal

from pydantic_core import InitErrorDetails

from pipeline.runtime.section import Count, Name, Natural, Section, contradictions, wrong_value


class VocabularyConfig(Section):
    """Words and their vectors."""

    source: Literal["train", "word2vec_bin", "word2vec_text", "gensim"] = "train"
    vectors: Name | None = None
    dim: Count = 100
    epochs: Count = 20
    min_count: Count = 1
    words: Literal["training", "all_captions"] = "training"
    known_words_only: bool = False
    other_cases: bool = False
    background: Natural = 0
    sentence_markers: bool = False

    @property
    def known_dim(self) -> int | None:
        """Width of the word vectors where this section decides it, None where a file does."""
        return self.dim if self.source == "train" else None

    @contradictions
    def _vectors_fit_the_source(self) -> Iterator[InitErrorDetails]:
        if self.source == "train":
            yield from self._without_a_file()
        elif self.vectors is None:
            text = f"source {self.source!r} needs the path of a vector file"
            yield wrong_value("vectors", None, text)
        elif not os.path.isfile(self.vectors):
            yield wrong_value("vectors", self.vectors, "no such file")

    def _without_a_file(self) -> Iterator[InitErrorDetails]:
        if self.vectors is not None:
            yield wrong_value("vectors", self.vectors, "must be null when source is 'train'")
        for key in ("known_words_only", "other_cases", "background"):
            if value := getattr(self, key):
                yield wrong_value(key, value, "needs a source of vectors other than 'train'")
        if self.words != "training":
            text = (
                "needs a source of vectors other than 'train', which sees training captions alone"
            )
            yield wrong_value("words", self.words, text)
