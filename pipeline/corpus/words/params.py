"""Section of params.yaml: words and their vectors."""

import os
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator
from pydantic_core import InitErrorDetails, PydanticCustomError

from pipeline.runtime.section import (
    WRONG_VALUE,
    Count,
    Natural,
    PathOrNone,
    Section,
    cross_check,
    not_found,
    wrong_value,
)

CONVERT = (
    "gensim's own files are pickles, which can run code and are not read; if you trust the file, "
    'convert it: python -c "from gensim.models import KeyedVectors; '
    "KeyedVectors.load('FILE').save_word2vec_format('FILE.bin', binary=True)\", and set source to "
    "word2vec_bin"
)


def _not_gensim(value: Any) -> Any:
    if value == "gensim":
        raise PydanticCustomError(WRONG_VALUE, CONVERT)
    return value


class VocabularyConfig(Section):
    source: Annotated[
        Literal["train", "word2vec_bin", "word2vec_text", "transformer"],
        BeforeValidator(_not_gensim),
    ] = "train"
    vectors: PathOrNone = None
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

    @cross_check
    def _vectors_fit_the_source(self) -> Iterator[InitErrorDetails]:
        if self.source == "train":
            if self.vectors is not None:
                yield wrong_value("vectors", self.vectors, "must be null when source is 'train'")
            for key in ("known_words_only", "other_cases", "background", "words"):
                value = getattr(self, key)
                if value not in (0, "training"):
                    yield wrong_value(key, value, "needs a source of vectors other than 'train'")
        elif self.vectors is None:
            text = "the name or folder of a model"
            if self.source != "transformer":
                text = "the path of a vector file"
            yield wrong_value("vectors", None, f"source {self.source!r} needs {text}")
        elif self.source == "transformer":
            from pipeline.corpus.words.transformer import model_folder

            if model_folder(self.vectors) is None:
                text = "neither a folder nor a model in the Hugging Face cache; with internet: "
                text += f"hf download {self.vectors}"
                yield wrong_value("vectors", self.vectors, text)
        elif not os.path.isfile(self.vectors):
            yield wrong_value("vectors", self.vectors, not_found(self.vectors, "file"))
