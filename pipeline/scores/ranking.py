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
        query_groups: (Q,) int64; an item is true for a query when their groups are equal.
        item_groups: (J,) int64.
        ranks: (Q, R) float64, rising: ranks from 1 of a query's true items when items of equal
            score stand with the true ones last; infinity where it has fewer than R of them.
    """

    scores: np.ndarray
    query_groups: np.ndarray
    item_groups: np.ndarray
    ranks: np.ndarray

    @property
    def true(self) -> np.ndarray:
        """Which items are true: (Q, J) booleans, at least one of every query."""
        return np.equal.outer(self.query_groups, self.item_groups)

    @property
    def true_counts(self) -> np.ndarray:
        """How many items are true: (Q,) int64, from 1."""
        return np.isfinite(self.ranks).sum(axis=1)
