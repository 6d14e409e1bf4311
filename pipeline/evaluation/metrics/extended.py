"""What extended positives alone are measured with: R-precision, and nDCG.

R-precision: the share of a query's R true items among its first R (Chun et al. 2022, ECCV Caption).
nDCG: the grades of a query's items, each counted less the later it stands (Jarvelin and Kekalainen
2002), with the grade itself as gain and the discount 1 / log2(1 + rank) over all ranks, divided by
the same sum of the best order. ECCV Caption has no grades: all are 1.
"""

import math
from collections.abc import Sequence

import numpy as np

from pipeline.evaluation.metrics import Metric
from pipeline.evaluation.truth import Ranking

R_PRECISION = "R-P: R-precision, percent of a query's R true items that are among its first R."
NDCG = (
    "nDCG: percent of the largest possible sum of grades, each divided by log2(1 + rank), over "
    "all ranks."
)


def r_precision(ranking: Ranking) -> np.ndarray:
    """(Q,) in percent."""
    counts = ranking.true_counts
    return 100.0 * (ranking.ranks <= counts[:, None]).sum(axis=1) / counts


def plain_r_precision(truth: Sequence[bool]) -> float:
    return 100.0 * sum(truth[: sum(truth)]) / sum(truth)


def r_precision_by_chance(true: np.ndarray, items: int) -> float:
    """Every true item is among the first R of n with probability R/n.

    Args:
        true: (Q,) how many items of each query are true.
        items: how many items there are.

    Returns:
        In percent.
    """
    return 100.0 * float((true / items).mean())


def ndcg(ranking: Ranking) -> np.ndarray:
    """(Q,) in percent; of equal scores the smaller grades stand first."""
    gained = (ranking.gains / np.log2(1 + ranking.ranks)).sum(axis=1)
    ideal = _ideal(-np.sort(-ranking.gains, axis=1))
    return 100.0 * np.minimum(gained / ideal, 1.0)  # sums of another order may round above


def plain_ndcg(grades: Sequence[float]) -> float:
    def gain(order: Sequence[float]) -> float:
        return sum(grade / math.log2(1 + rank) for rank, grade in enumerate(order, start=1))

    return 100.0 * gain(grades) / gain(sorted(grades, reverse=True))


def ndcg_by_chance(grades: np.ndarray, items: int) -> float:
    """Every grade is expected to be divided by the mean of all discounts.

    Args:
        grades: (Q, R) of the true items of each query, falling, 0 where there are fewer.
        items: how many items there are.

    Returns:
        In percent.
    """
    discount = float((1 / np.log2(np.arange(2, items + 2))).mean())
    return 100.0 * float((grades.sum(axis=1) * discount / _ideal(grades)).mean())


def _ideal(falling: np.ndarray) -> np.ndarray:
    """(Q,) sums of the discounted grades (Q, R) in their best order."""
    return np.asarray((falling / np.log2(np.arange(2, falling.shape[1] + 2))).sum(axis=1))


ROWS = (
    Metric(
        name="rprecision",
        title="R-P",
        note=R_PRECISION,
        per_query=r_precision,
        reference=plain_r_precision,
        chance=r_precision_by_chance,
        extended=True,
        place=40,
    ),
    Metric(
        name="ndcg",
        title="nDCG",
        note=NDCG,
        per_query=ndcg,
        reference=plain_ndcg,
        chance=ndcg_by_chance,
        graded=True,
        extended=True,
        place=50,
    ),
)
