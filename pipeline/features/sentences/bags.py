"""Captions as bags of rows of one table with a row per word: what mean vector and Fisher vector
have in common, so that a caption is encoded by adding rows and nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
import torch
from torch.nn import functional

from pipeline.runtime.errors import WorkbenchError, listing


@dataclass(frozen=True)
class Bags:
    """The known words of M captions, S in all, repeated words as often as they occur."""

    rows: np.ndarray  # (S,) int64, rows of the table, caption after caption
    starts: np.ndarray  # (M,) int64, where the rows of a caption begin
    lengths: np.ndarray  # (M,) int64, how many rows a caption has, possibly none


def bags_of(captions: Sequence[Sequence[str]], index: Mapping[str, int]) -> Bags:
    """Look up the words of captions.

    Args:
        captions: M lists of words.
        index: row of the table by word; words that it does not have are left out.

    Returns:
        The bags of the captions.

    Raises:
        ValueError: for captions that are strings.
    """
    if isinstance(captions, str) or any(isinstance(caption, str) for caption in captions):
        raise ValueError("captions must be lists of words, not strings")
    lengths = np.fromiter(map(len, captions), np.int64, len(captions))
    words = chain.from_iterable(captions)
    rows = np.fromiter(map(index.get, words, repeat(-1)), np.int64, int(lengths.sum()))
    known = rows >= 0
    owners = np.repeat(np.arange(len(captions)), lengths)
    lengths = np.bincount(owners[known], minlength=len(captions))
    return Bags(rows[known], np.cumsum(lengths) - lengths, lengths)


def add_rows(table: torch.Tensor, bags: Bags) -> torch.Tensor:
    """Add the rows of every bag, in their order.

    Args:
        table: (V, D) float32.
        bags: of M captions.

    Returns:
        (M, D), zeros for an empty bag.
    """
    return functional.embedding_bag(
        torch.from_numpy(bags.rows), table, torch.from_numpy(bags.starts), mode="sum"
    )


def index_words(words: Sequence[str], vectors: np.ndarray) -> dict[str, int]:
    """The rows of words in a table of their vectors.

    Args:
        words: V different words.
        vectors: (V, D).

    Returns:
        Row by word.

    Raises:
        WorkbenchError: where a value is not finite.
    """
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        named = listing(words[row] for row in bad.tolist())
        raise WorkbenchError(
            f"{len(bad)} word vectors have values that are not finite: {named}",
            "the file of word vectors is damaged: fetch or convert it again",
        )
    return {word: row for row, word in enumerate(words)}
