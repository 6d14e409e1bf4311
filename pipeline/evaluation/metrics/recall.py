"""R@K: whether a true item is among the first K of a query."""

from collections.abc import Sequence

import numpy as np

from pipeline.evaluation.metrics import Metric, survival_function
from pipeline.evaluation.truth import Ranking

NOTE = "R@K: percent of the queries with a true item among the first K."


def recall(k: int, curve: bool = False) -> Metric:
    """The row of R@k.

    Args:
        k: from 1.
        curve: whether training records it after every epoch.

    Returns:
        The row, in percent.
    """

    def per_query(ranking: Ranking) -> np.ndarray:
        return 100.0 * (ranking.ranks[:, 0] <= k)

    def reference(truth: Sequence[bool]) -> float:
        return 100.0 if any(truth[:k]) else 0.0

    def chance(true: np.ndarray, items: int) -> float:
        return 100.0 * (1.0 - float(survival_function(true, items)[min(k, items)]))

    place = 11 - 1 / k  # smaller K first, all of them before other metrics
    return Metric(f"r{k}", f"R@{k}", NOTE, per_query, reference, chance, curve=curve, place=place)


ROWS = (recall(1, curve=True), recall(5), recall(10, curve=True))
