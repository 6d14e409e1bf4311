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
    """A number for every query, and the figure that the queries of a direction make of it.

    Attributes:
        name: key in files, such as "r1": lower case letters, digits and underscores.
        title: heading of its columns, such as "R@1".
        note: a sentence that explains it in the report; rows may share one.
        per_query: the numbers (Q,) of the queries of a ranking, each from it and its items alone.
        reference: the same for one query, from whether each item is true, first to last, in plain
            Python: what the tests compare with.
        chance: the expected figure of uniformly random rankings, from the number of true items of
            every query (Q,) and the number of items.
        better: whether larger or smaller figures are.
        summary: how the queries' numbers make a figure.
        span: the smallest and the largest number there can be, both finite.
        curve: whether training records it for the validation split after every epoch.
        graded: whether `reference` and `chance` take grades instead: of each item, first to last,
            0 for false ones; and of the true items of every query, falling (Q, R), 0 where there
            are fewer.
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
    span: tuple[float, float] = (0, 100)
    curve: bool = False
    graded: bool = False
    extended: bool = False
    place: int = 100

    def measured(self, ranking: Ranking) -> np.ndarray:
        """The number of every query: (Q,) float64; WorkbenchError unless all are in the span."""
        values = np.asarray(self.per_query(ranking), np.float64)
        if values.shape != ranking.ranks.shape[:1]:
            raise WorkbenchError(
                f"metric {self.name}: numbers of shape {values.shape} for "
                f"{len(ranking.ranks)} queries: expected one each"
            )
        low, high = self.span
        wrong = values[~((values >= low) & (values <= high))]  # NaN compares false
        if len(wrong):
            raise WorkbenchError(
                f"metric {self.name}: {wrong[0]:g} for a query; allowed is a number from {low:,} "
                f"to {high:,}"
            )
        return values

    def figure(self, values: np.ndarray) -> float:
        """The figure of queries with the numbers `values` (Q,)."""
        return float(np.median(values) if self.summary == "median" else values.mean())
