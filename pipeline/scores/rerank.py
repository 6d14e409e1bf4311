"""Two models one after the other: a quick one chooses, a better one orders what was chosen."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from pipeline.scores.average import check_same_items, digests_of_corpus
from pipeline.scores.file import SplitScores, read_scores
from pipeline.scores.tiles import Matrix, Tiles
from pipeline.storage.groups import GroupFile


class Reranked(Matrix):
    """Scores (N images, M captions) of a second model, ranked by `for_queries`: of each query the
    `top` items of the largest first scores by the second, all others behind them by the first."""

    def __init__(self, first: np.ndarray, second: np.ndarray, top: int) -> None:
        super().__init__(second)
        self.first, self.top = first, top

    def selected(self, images: np.ndarray, captions: np.ndarray) -> "Reranked":
        if self.shape == (len(images), len(captions)):
            return self
        rows = np.ix_(images, captions)
        return Reranked(self.first[rows], self.scores[rows], self.top)

    def cost(self, folds: int) -> dict[str, float]:
        """By direction, the percentage of all pairs that the second model has to score."""
        images, captions = (size // folds for size in self.shape)
        items = {"i2t": captions, "t2i": images}
        return {way: round(100 * min(1.0, self.top / count), 2) for way, count in items.items()}

    def for_queries(self, axis: int) -> Tiles:
        return self._orders[axis]

    @cached_property
    def _orders(self) -> tuple[Tiles, Tiles]:
        of_captions = reranked(self.first.T, self.scores.T, self.top)
        return Matrix(reranked(self.first, self.scores, self.top)), Matrix(of_captions.T)


def reranked(first: np.ndarray, second: np.ndarray, top: int) -> np.ndarray:
    """Numbers (Q, J) that rank the J items of each query: whole ones, from 0 for the `top` items of
    the largest first scores (of equal ones the first in the row), negative for all others. Items
    tie where the scores that rank them do. first, second: (Q, J)."""
    numbers = np.empty(first.shape, np.float32)  # exact up to 2^24 items
    for row, of_first, of_second in zip(numbers, first, second, strict=True):
        chosen = np.argsort(-of_first, kind="stable")[:top]
        row[:] = np.unique(of_first, return_inverse=True)[1] - float(len(of_first))
        row[chosen] = np.unique(of_second[chosen], return_inverse=True)[1]
    return numbers


def read_reranked(first: Path, second: Path, top: int) -> SplitScores:
    """The test split of two score files of the same images and captions, as Reranked. Memory holds
    two matrices (N, M) when it is ranked."""
    digests_of_corpus([GroupFile(path) for path in (first, second)])
    of_first, of_second = (read_scores(path, "test", False) for path in (first, second))
    check_same_items(of_first, of_second, f"{first} and {second}, split test")
    scores = Reranked(of_first.matrix, of_second.matrix, top)
    return replace(of_second, scores=scores, image_embeddings=None, caption_embeddings=None)
