"""A caption as the mean of its words' vectors: the simplest sentence encoder, and the text feature
that word order and rare words cannot disturb (Wang et al. 2016, section 3.1)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch

from pipeline.corpus.vocabulary import load_known_vectors, load_unlisted_vectors
from pipeline.features.sentences.bags import add_rows, bags_of, index_words
from pipeline.features.sentences.state import Material, State


class MeanVector:
    """Mean over the vectors of a caption's known words, every occurrence counted; not normalised.

    Args:
        words: V different words.
        vectors: (V, D) of the words, finite.
    """

    by_row = True  # a vector depends on its caption alone

    def __init__(self, words: Sequence[str], vectors: np.ndarray) -> None:
        self._index = index_words(words, vectors)
        self._table = torch.tensor(vectors, dtype=torch.float32)
        self.dim = vectors.shape[1]

    def known(self, captions: Sequence[Sequence[str]]) -> np.ndarray:
        """How many words of each of M captions have a vector, (M,) int64."""
        return bags_of(captions, self._index).lengths

    def encode(self, captions: Sequence[Sequence[str]]) -> np.ndarray:
        """M captions to (M, D) float32; zeros for a caption without a known word."""
        bags = bags_of(captions, self._index)
        sums = add_rows(self._table, bags).numpy()
        sums /= np.maximum(bags.lengths, 1).astype(np.float32)[:, None]
        return sums

    def state(self) -> State:
        """The words and their vectors."""
        return State({}, list(self._index), {"vectors": self._table.numpy().copy()})

    @classmethod
    def fit(cls, material: Material) -> Self:
        """The encoder of the vocabulary's vectors and of those of unlisted words."""
        words, vectors = load_known_vectors(material.vocabulary)
        others, more = load_unlisted_vectors(material.vocabulary)
        return cls([*words, *others], np.concatenate([vectors, more]))

    @classmethod
    def restore(cls, state: State, wordnet: Path | None = None) -> Self:
        """The encoding that has a state.

        Args:
            state: what `state` gave.
            wordnet: not read.

        Returns:
            An encoding that gives the same bytes.
        """
        return cls(state.words, state.arrays["vectors"])
