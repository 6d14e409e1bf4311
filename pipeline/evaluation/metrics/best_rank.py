"""Med r and Mean r: median and mean rank of the best true item of a query."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from pipeline.evaluation.metrics import Metric, survival_function

NOTE = "Med r, Mean r: median and mean rank of the first true item."


def reference(truth: Sequence[bool]) -> float:
    return list(truth).index(True) + 1


def median(true: np.ndarray, items: int) -> float:
    """The median of the best ranks of all queries together under random rankings.

    Args:
        true: (Q,) how many items of each query are true.
        items: how many items there are.

    Returns:
        A rank from 1.
    """
    return float(np.argmax(survival_function(true, items) <= 0.5 + 1e-12))


def mean(true: np.ndarray, items: int) -> float:
    """The mean best rank under random rankings: (n + 1) / (m + 1) with m of n items true.

    Args:
        true: (Q,) how many items of each query are true.
        items: how many items there are.

    Returns:
        A rank from 1.
    """
    return float(((items + 1) / (true + 1)).mean())


_row = partial(
    Metric,
    note=NOTE,
    per_query=lambda ranking: ranking.ranks[:, 0],  # (Q,), from 1
    reference=reference,
    better="smaller",
    place=20,
)
ROWS = (
    _row("medr", "Med r", chance=median, summary="median"),
    _row("meanr", "Mean r", chance=mean),
)
