"""Words of captions as numbers, and the matrix of their vectors, as models read them.

The vocabulary is readable JSON, the matrix HDF5; row i of the matrix belongs to token i. What is
fitted on word vectors leaves out the random rows, and may add a sample of other words. Beside them
may lie vectors of unlisted words: words of the captions that have no id.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pipeline.features.feature_file import FeatureFile
from pipeline.runtime.errors import WorkbenchError, other_version

SCHEMA_VERSION = 1
RESERVED = ("<pad>", "<unk>", "<start>", "<end>")
REBUILD = "build it again with: dvc repro build_vocabulary"


@dataclass(frozen=True)
class Vocabulary:
    """Tokens and their ids: `<pad>` 0, `<unk>` 1, with sentence_markers `<start>` 2 and `<end>` 3,
    then the words, the most frequent first and equally frequent ones in alphabetical order.

    A caption's word that is spelt like one of the four above is `<unk>`. counts: occurrences in the
    training captions (for `<unk>` those of the words left out, for the markers the number of
    captions, for `<pad>` 0).
    """

    PAD: ClassVar[int] = 0
    UNK: ClassVar[int] = 1
    START: ClassVar[int] = 2
    END: ClassVar[int] = 3

    tokens: tuple[str, ...]
    counts: tuple[int, ...]
    sentence_markers: bool

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def _ids(self) -> dict[str, int]:
        first = len(reserved(self.sentence_markers))
        return {word: i for i, word in enumerate(self.tokens) if i >= first}

    def encode(self, words: Sequence[str]) -> list[int]:
        """Ids of T words, UNK for unknown ones; T + 2 ids with sentence markers."""
        ids = [self._ids.get(word, self.UNK) for word in words]
        return [self.START, *ids, self.END] if self.sentence_markers else ids

    @property
    def sha256(self) -> str:
        """Digest over the tokens, markers included: a model finds its vocabulary by it."""
        return hashlib.sha256(json.dumps(self.tokens).encode()).hexdigest()

    @classmethod
    def load(cls, folder: Path) -> "Vocabulary":
        """Read `vocabulary.json` of a folder; WorkbenchError when it is missing or damaged."""
        path = folder / "vocabulary.json"
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            version = values["schema_version"]
            if version != SCHEMA_VERSION:
                raise other_version(path, version, SCHEMA_VERSION, REBUILD)
            if values.pop("sha256") != content_digest(values):
                raise ValueError("its content does not match its sha256")
            tokens = values["tokens"]
            return cls(tuple(tokens), tuple(tokens.values()), values["sentence_markers"])
        except FileNotFoundError:
            raise WorkbenchError(f"{path}: no such file", REBUILD) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise WorkbenchError(f"{path}: damaged ({error!r})", REBUILD) from None


def content_digest(values: Mapping[str, Any]) -> str:
    """SHA-256 hex over all else that a vocabulary's file says."""
    return hashlib.sha256(json.dumps(values, allow_nan=False).encode()).hexdigest()


def load_word_vectors(folder: Path, dim: int | None = None) -> np.ndarray:
    """The matrix of a vocabulary's word vectors, (V, D) float32, row order = ids.

    Args:
        folder: of the vocabulary.
        dim: the D that a model needs; None for any.

    Returns:
        The matrix; row i is the vector of the word with the id i.

    Raises:
        WorkbenchError: the matrix belongs to another vocabulary, or has another D.
    """
    path = folder / "vectors.h5"
    file = FeatureFile(path)
    matrix = file.load()
    if file.ids != list(Vocabulary.load(folder).tokens) or matrix.ndim != 2:
        raise WorkbenchError(f"{path}: does not belong to {folder / 'vocabulary.json'}", REBUILD)
    if dim not in (None, matrix.shape[1]):
        raise WorkbenchError(
            f"{path}: word vectors have {matrix.shape[1]} dimensions, but {dim} are asked for",
            f"set the model's word_dim to {matrix.shape[1]}, or choose other vectors",
        )
    return matrix.astype(np.float32)


def load_known_vectors(folder: Path) -> tuple[list[str], np.ndarray]:
    """The W words that have a vector of their own, in the order of their ids, without reserved
    tokens, and (W, D) float32."""
    matrix = load_word_vectors(folder)
    vocabulary = Vocabulary.load(folder)
    known = FeatureFile(folder / "vectors.h5").load("known").astype(bool)
    known[: len(reserved(vocabulary.sentence_markers))] = False
    return [vocabulary.tokens[i] for i in np.flatnonzero(known)], matrix[known]


def load_background(folder: Path) -> np.ndarray | None:
    """(N, D) float32 vectors of words that are not the vocabulary's, None when none were kept."""
    file = _beside_the_vectors(folder, "background.h5")
    return None if file is None else file.load().astype(np.float32, copy=False)


def load_unlisted_vectors(folder: Path) -> tuple[list[str], np.ndarray]:
    """U words of the captions that have a vector but no id, and (U, D) float32; U may be 0. An
    encoder that learns no table of its own knows them, too. Nothing is fitted on them."""
    file = _beside_the_vectors(folder, "unlisted.h5")
    if file is None:
        return [], np.empty((0, *FeatureFile(folder / "vectors.h5").shape()[1:]), np.float32)
    return file.ids, file.load().astype(np.float32, copy=False)


def _beside_the_vectors(folder: Path, name: str) -> FeatureFile | None:
    """A file of more word vectors, None for none."""
    path = folder / name
    return FeatureFile(path) if path.exists() else None


def reserved(sentence_markers: bool) -> tuple[str, ...]:
    """The tokens that are no words, with or without those for the ends of a sentence."""
    return RESERVED if sentence_markers else RESERVED[:2]
