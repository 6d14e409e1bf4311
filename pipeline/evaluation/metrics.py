"""Retrieval metrics: R@1, R@5, R@10, Med r, Mean r in both directions, their sum, and chance."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.scores.groups import Groups, group_codes
from pipeline.scores.ranks import Ranks, retrieval_ranks

__all__ = [
    "Ranks",
    "average",
    "chance_level",
    "retrieval_ranks",
    "summarise",
]

RECALLS = (1, 5, 10)
MEASURES = (*(f"r{k}" for k in RECALLS), "medr", "meanr")


def summarise(ranks: Ranks) -> dict[str, Any]:
    """{"i2t": {"r1", "r5", "r10", "medr", "meanr"}, "t2i": {...}, "rsum"}; recalls in percent.

    rsum is the sum of the six recalls; medr and meanr are the median and mean rank.
    """
    summary: dict[str, Any] = {"i2t": _measures(ranks.i2t), "t2i": _measures(ranks.t2i)}
    return summary | {"rsum": recall_sum(summary)}


def recall_sum(summary: dict[str, Any]) -> float:
    """Sum of the six recalls of both directions."""
    return sum(summary[way][f"r{k}"] for way in ("i2t", "t2i") for k in RECALLS)


def average(summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean of every figure over the folds' summaries."""
    mean: dict[str, Any] = {
        way: {
            measure: float(np.mean([summary[way][measure] for summary in summaries]))
            for measure in MEASURES
        }
        for way in ("i2t", "t2i")
    }
    return mean | {"rsum": float(np.mean([summary["rsum"] for summary in summaries]))}


def chance_level(image_groups: Groups, caption_groups: Groups) -> dict[str, Any]:
    """What a uniformly random ranking of the same queries and items is expected to reach.

    Exact: with m true items among n, P(best rank > r) = C(n - m, r) / C(n, r), and the mean best
    rank is (n + 1) / (m + 1). medr is the median of the ranks of all queries together.
    """
    images, captions = group_codes(image_groups, caption_groups)
    size = int(max(images.max(), captions.max())) + 1
    image_counts, caption_counts = (
        np.bincount(images, None, size),
        np.bincount(captions, None, size),
    )
    summary: dict[str, Any] = {
        "i2t": _expected(caption_counts[images], len(captions)),
        "t2i": _expected(image_counts[captions], len(images)),
    }
    return summary | {"rsum": recall_sum(summary)}


def _measures(ranks: np.ndarray) -> dict[str, float]:
    recalls = {f"r{k}": 100.0 * int((ranks <= k).sum()) / len(ranks) for k in RECALLS}
    return recalls | {"medr": float(np.median(ranks)), "meanr": float(ranks.mean())}


def _expected(true: np.ndarray, items: int) -> dict[str, float]:
    """The measures of random rankings of `items` items, `true` (Q,) of them true for each query."""
    beyond = np.zeros(items + 1)  # beyond[r]: probability that the best true item ranks after r
    for m, queries in zip(*np.unique(true, return_counts=True), strict=True):
        steps = np.arange(items)
        survival = np.cumprod(np.maximum(items - m - steps, 0) / (items - steps))
        beyond += queries / len(true) * np.concatenate([[1.0], survival])
    recalls = {f"r{k}": 100.0 * (1.0 - float(beyond[min(k, items)])) for k in RECALLS}
    median = float(np.argmax(beyond <= 0.5 + 1e-12))
    return recalls | {"medr": median, "meanr": float(((items + 1) / (true + 1)).mean())}
