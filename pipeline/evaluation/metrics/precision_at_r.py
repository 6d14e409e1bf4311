"""R-precision (Chun et al. 2022): the share of a query's R true items among its first R."""

from collections.abc import Sequence

import numpy as np

from pipeline.evaluation.metrics import Metric
from pipeline.evaluation.truth import Ranking

NOTE = "R-P: R-precision, percent of a query's R true items that are among its first R."


def r_precision(ranking: Ranking) -> np.ndarray:
    """(Q,) in percent."""
    counts = ranking.true_counts
    return 100.0 * (ranking.ranks <= counts[:, None]).sum(axis=1) / counts


def reference(truth: Sequence[bool]) -> float:
    return 100.0 * sum(truth[: sum(truth)]) / sum(truth)


def chance(true: np.ndarray, items: int) -> float:
    """Every true item is among the first R of n with probability R/n.

    Args:
        true: (Q,) how many items of each query are true.
        items: how many items there are.

    Returns:
        In percent.
    """
    return 100.0 * float((true / items).mean())


ROWS = (Metric("rprecision", "R-P", NOTE, r_precision, reference, chance, extended=True, place=40),)
