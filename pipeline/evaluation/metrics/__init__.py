"""The retrieval metrics, a file each: its ROWS are one or more `Metric`.

A metric is one row: whatever computes, shows or compares figures loops over such rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pipeline.evaluation.truth import Ranking
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.registry import Registry

Better = Literal["larger", "smaller"]
Summary = Literal["mean", "median"]

FILES = Registry("pipeline.evaluation.metrics", "metric", "ROWS", "ROWS = (Metric(...),)")


@dataclass(frozen=True)
class Metric:
    """A number for every query, and the figure that the queries of a direction make of it.

    Attributes:
        name: key in files, such as "r1": lower case letters, digits and underscores.
        title: heading of its columns, such as "R@1".
        note: a sentence that explains it in the report; rows may share one.
        per_query: the numbers (Q,) of the queries of a ranking, each from it and its items alone.
        reference: the same for one query in plain Python, from whether each item is true, first to
            last.
        chance: the expectation under random rankings, from the numbers of true items (Q,) and of
            items.
        better: whether larger or smaller figures are.
        summary: how the queries' numbers make a figure.
        curve: whether training records it after every epoch.
        graded: whether `reference` and `chance` take grades: of each item, first to last, 0 for
            false ones; and of the true items of every query, falling (Q, R), 0 where there are
            fewer.
        extended: whether it is measured against lists of extended positives alone.
        place: of its columns, smallest first; of equal places by the names of the files.
    """

    name: str
    title: str
    note: str
    per_query: Callable[[Ranking], np.ndarray]
    reference: Callable[[Sequence[Any]], float]
    chance: Callable[[np.ndarray, int], float]
    better: Better = "larger"
    summary: Summary = "mean"
    curve: bool = False
    graded: bool = False
    extended: bool = False
    place: float = 100

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


def survival_function(true: np.ndarray, items: int) -> np.ndarray:
    """Probability that uniformly random rankings put the best true item after rank r.

    C(n - m, r) / C(n, r) with m of n items true, mean over queries.

    Args:
        true: (Q,) how many items of each query are true.
        items: how many items there are, n.

    Returns:
        (n + 1,) for r = 0 ... n, down to 0.
    """
    total = np.zeros(items + 1)
    for count, queries in zip(*np.unique(true, return_counts=True), strict=True):
        steps = np.arange(items)
        survival = np.cumprod(np.maximum(items - count - steps, 0) / (items - steps))
        total += queries / len(true) * np.concatenate([[1.0], survival])
    return total
