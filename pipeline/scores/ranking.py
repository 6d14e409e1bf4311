"""What a metric is computed from: scores, the items that are true, and the ranks of those.

Without torch, so that what only names metrics does not load it.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Direction = Literal["i2t", "t2i"]
DIRECTIONS: tuple[Direction, ...] = ("i2t", "t2i")  # image queries, caption queries


@dataclass(frozen=True, eq=False)
class Ranking:
    """Q queries of one direction and all J items that each of them ranks.

    Attributes:
        scores: (Q, J) floats, larger is better.
        pairs: numbers (P,) of the query and (P,) of the item of every true pair.
        ranks: (Q, R) float64, rising: ranks from 1 of a query's true items when items of equal
            score stand with the true ones last; infinity where it has fewer than R of them.
        gains: (Q, R) float64, the grades of these items, of equal scores the smaller first; 0 where
            there are fewer.
    """

    scores: np.ndarray
    pairs: tuple[np.ndarray, np.ndarray]
    ranks: np.ndarray
    gains: np.ndarray

    @property
    def true(self) -> np.ndarray:
        """Which items are true: (Q, J) booleans, at least one of every query."""
        flags = np.zeros(self.scores.shape, bool)
        flags[self.pairs] = True
        return flags

    @property
    def true_counts(self) -> np.ndarray:
        """How many items are true: (Q,) int64, from 1."""
        return np.isfinite(self.ranks).sum(axis=1)
