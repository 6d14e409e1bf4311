"""What a metric is computed from: ranks and grades of true items. Loads no torch."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Direction = Literal["i2t", "t2i"]
DIRECTIONS: tuple[Direction, ...] = ("i2t", "t2i")  # image queries, caption queries


@dataclass(frozen=True, eq=False)
class Ranking:
    """Where Q queries of one direction find their true items. ranks: (Q, R) float64, ascending,
    from 1, behind other items of equal score; infinity where a query has fewer than R. gains: (Q,
    R) float64, the grades of these items, of equal scores the smaller first; 0 where there are
    fewer."""

    ranks: np.ndarray
    gains: np.ndarray

    @property
    def true_counts(self) -> np.ndarray:
        """How many items are true: (Q,) int64, from 1."""
        return np.isfinite(self.ranks).sum(axis=1)
