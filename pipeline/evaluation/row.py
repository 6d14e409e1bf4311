"""A metric as one row: whatever computes, shows or compares figures loops over such rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.ranking import Ranking

Better = Literal["larger", "smaller"]
Summary = Literal["mean", "median"]


@dataclass(frozen=True)
class Metric:
    """A number for every query, and the figure that the queries of a direction make of it."""

    name: str  # key in files, such as "r1": lower case letters, digits and underscores
    title: str  # heading of its columns, such as "R@1"
    note: str  # a sentence that explains it in the report; rows may share one
    # the numbers (Q,) of the queries of a ranking, each from it and its items alone
    per_query: Callable[[Ranking], np.ndarray]
    # the same for one query in plain Python, from whether each item is true, first to last
    reference: Callable[[Sequence[Any]], float]
    # the expectation under random rankings, from the numbers of true items (Q,) and of items
    chance: Callable[[np.ndarray, int], float]
    better: Better = "larger"
    summary: Summary = "mean"  # how the queries' numbers make a figure
    curve: bool = False  # whether training records it after every epoch
    # whether `reference` and `chance` take grades: of each item, first to last, 0 for false ones;
    # and of the true items of every query, falling (Q, R), 0 where there are fewer
    graded: bool = False
    extended: bool = False  # whether it is measured against lists of extended positives alone
    place: float = 100  # of its columns, smallest first; of equal places by the names of the files

    def measured(self, ranking: Ranking) -> np.ndarray:
        """The number of every query: (Q,) float64; WorkbenchError unless each has a finite one."""
        values = np.asarray(self.per_query(ranking), np.float64)
        if values.shape != ranking.ranks.shape[:1] or not np.isfinite(values).all():
            raise WorkbenchError(
                f"metric {self.name}: its numbers are not a finite one for each of "
                f"{len(ranking.ranks)} queries"
            )
        return values

    def figure(self, values: np.ndarray) -> float:
        return float(np.median(values) if self.summary == "median" else values.mean())


def beyond(true: np.ndarray, items: int) -> np.ndarray:
    """Probability that uniformly random rankings put the best true item after rank r, for r = 0 ...
    n: (n + 1,), down to 0. C(n - m, r) / C(n, r) with m = true (Q,) of n items, mean over queries.
    """
    total = np.zeros(items + 1)
    for m, queries in zip(*np.unique(true, return_counts=True), strict=True):
        steps = np.arange(items)
        survival = np.cumprod(np.maximum(items - m - steps, 0) / (items - steps))
        total += queries / len(true) * np.concatenate([[1.0], survival])
    return total
