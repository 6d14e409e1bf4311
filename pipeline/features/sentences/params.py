"""Section of params.yaml: one vector per caption."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic_core import InitErrorDetails

from pipeline.features.sentences.encodings import ENCODINGS
from pipeline.runtime.section import (
    Count,
    CountOrNone,
    EmbeddingFileConfig,
    Name,
    NamesFile,
    PathOrNone,
    Section,
    cross_check,
    not_found,
    one_of,
    some_of,
    wrong_value,
)


class MeanVectorConfig(Section):
    """The mean of the words' vectors."""

    pca: CountOrNone = None


class TfIdfConfig(Section):
    """tf-idf weights of lemmas."""

    lemmatiser: Literal["wordnet", "lemminflect", "none"] = "lemminflect"
    wordnet: PathOrNone = None
    stop_words: Annotated[Name, NamesFile(("function_words", "none"))] = "function_words"
    terms: Count = 3000
    pca: CountOrNone = None

    @property
    def wordnet_folder(self) -> Path | None:
        """The folder given for WordNet's files, None where they are to be looked for."""
        return Path(self.wordnet) if self.wordnet else None

    @cross_check
    def _files_are_there(self) -> Iterator[InitErrorDetails]:
        named = self.stop_words in ("function_words", "none")
        if not named and not os.path.isfile(self.stop_words):
            text = f"{not_found(self.stop_words, 'file')}; "
            text += "allowed are function_words, none or the path of a list"
            yield wrong_value("stop_words", self.stop_words, text)
        if self.wordnet is not None and not os.path.isdir(self.wordnet):
            yield wrong_value("wordnet", self.wordnet, not_found(self.wordnet, "folder"))


class FisherConfig(Section):
    """Fisher vectors over mixtures of word vectors."""

    mixture: Annotated[str, some_of(("gmm", "lmm", "hglmm"))] = "hglmm"
    centres: Count = 8
    ica: CountOrNone = 32
    iterations: Count = 10
    pca: CountOrNone = 256

    @property
    def mixtures(self) -> list[str]:
        """The kinds of the mixtures whose Fisher vectors are joined, in the order of the joint."""
        return self.mixture.split("+")


class TransformerConfig(Section):
    """The vectors of a pretrained sentence transformer."""

    model: Annotated[Name, NamesFile()] = "sentence-transformers/all-MiniLM-L6-v2"
    precision: Literal["fp32", "bf16"] = "fp32"
    batch_size: Count = 32

    def named(self) -> dict[str, Any]:
        """The settings with the last part of the name: files hold no paths, and need no folder."""
        return self.model_dump() | {"model": os.path.basename(os.path.abspath(self.model))}


class SentencesConfig(Section):
    """One vector per caption: which encoding, and a section for each that has settings."""

    encoding: Annotated[str, one_of((*ENCODINGS, "file"))] = "fisher"
    unknown: Literal["error", "zero"] = "zero"
    mean_vector: MeanVectorConfig = MeanVectorConfig()
    tfidf: TfIdfConfig = TfIdfConfig()
    fisher: FisherConfig = FisherConfig()
    transformer: TransformerConfig = TransformerConfig()
    file: EmbeddingFileConfig = EmbeddingFileConfig()

    @cross_check
    def _file_is_there(self) -> Iterator[InitErrorDetails]:
        yield from self.file.path_problems("encoding", self.encoding)
