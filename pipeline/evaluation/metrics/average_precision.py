"""mAP@R: how many of a query's R true items are among its first R, and how early.

Musgrave et al. 2020, "A Metric Learning Reality Check"; the ECCV Caption benchmark (Chun et al.
2022) takes it for image-text retrieval. With one true item it is R@1.
"""

from collections.abc import Sequence

import numpy as np

from pipeline.evaluation.metrics import Metric
from pipeline.evaluation.truth import Ranking

NOTE = (
    "mAP@R: mean average precision in percent among the first R items, R being the number of a "
    "query's true items."
)


def average_precision(ranking: Ranking) -> np.ndarray:
    """1/R of the sum, over true items among the first R, of the precision at their rank: (Q,)."""
    ranks = ranking.ranks
    counts = ranking.true_counts
    precision = np.arange(1, ranks.shape[1] + 1) / ranks  # 0 at the infinite ranks
    return 100.0 * np.where(ranks <= counts[:, None], precision, 0.0).sum(axis=1) / counts


def reference(truth: Sequence[bool]) -> float:
    count = sum(truth)
    precisions = [sum(truth[:rank]) / rank for rank in range(1, count + 1) if truth[rank - 1]]
    return 100.0 * sum(precisions) / count


def chance(true: np.ndarray, items: int) -> float:
    """The exact expectation: 1/n of the sum over k = 1 ... R of (1 + (k-1) (R-1) / (n-1)) / k.

    Rank k is true with probability R/n, each of the k - 1 before it then with (R-1) / (n-1).

    Args:
        true: (Q,) how many items of each query are true, R.
        items: how many items there are, n.

    Returns:
        In percent.
    """
    total = 0.0
    for count, queries in zip(*np.unique(true, return_counts=True), strict=True):
        rank = np.arange(1, count + 1)
        before = (rank - 1) * (count - 1) / max(items - 1, 1)
        total += queries * float(((1 + before) / rank).sum()) / items
    return 100.0 * total / len(true)


ROWS = (Metric("mapr", "mAP@R", NOTE, average_precision, reference, chance, place=30),)
