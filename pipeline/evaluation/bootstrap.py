"""Percentile bootstrap of retrieval metrics: how far a figure could move with other test queries.

Groups are drawn, not single queries: an image and its captions come and go together, since their
ranks go together. Drawing captions one by one would make the intervals too narrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.evaluation.metrics import MEASURES, RECALLS, Ranks

CELLS = 1 << 22  # weights held at once: 32 MB of float64


@dataclass(frozen=True)
class RankedFold:
    """Ranks within one fold, and the group numbers 0 ... G - 1 of its queries.

    ranks: of N images and M captions; images: (N,) int64; captions: (M,) int64.
    """

    ranks: Ranks
    images: np.ndarray
    captions: np.ndarray


def bootstrap_intervals(
    folds: Sequence[RankedFold], resamples: int, confidence: float, seed: int
) -> dict[str, Any]:
    """[low, high] of every measure of `metrics.average`, in the same nested dict.

    Each of the `resamples` draws takes as many groups as a fold has, with replacement, in every
    fold, and averages over the folds. The interval holds the middle `confidence` of the draws.
    rsum is summed draw by draw, so that its interval reflects how the recalls vary together.
    """
    low, high = limits(resampled(folds, resamples, seed), confidence)
    pairs = [[float(a), float(b)] for a, b in zip(low, high, strict=True)]
    size = len(MEASURES)
    return {
        "i2t": dict(zip(MEASURES, pairs[:size], strict=True)),
        "t2i": dict(zip(MEASURES, pairs[size : 2 * size], strict=True)),
        "rsum": pairs[-1],
    }


def resampled(folds: Sequence[RankedFold], resamples: int, seed: int) -> np.ndarray:
    """Every draw's figures: (2 x measures + 1, resamples): i2t, t2i and rsum, means over the folds.

    What is drawn depends on the groups of the folds and the seed alone, never on the ranks: two
    runs with the same queries are resampled alike, draw by draw.
    """
    random = np.random.default_rng(seed)
    return np.asarray(np.mean([_draws(fold, resamples, random) for fold in folds], axis=0))


def limits(drawn: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper end, (F,) each, of the middle `confidence` of draws (F, resamples)."""
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(drawn, [tail, 100.0 - tail], axis=1)
    return low, high


def _draws(fold: RankedFold, resamples: int, random: np.random.Generator) -> np.ndarray:
    """(2 x measures + 1, resamples): measures of i2t, of t2i, and rsum, of resampled groups."""
    groups = int(fold.images.max()) + 1
    step = max(1, CELLS // max(groups, len(fold.images), len(fold.captions)))
    parts = []
    for start in range(0, resamples, step):
        weights = _weights(groups, min(step, resamples - start), random)
        ways = ((fold.ranks.i2t, fold.images), (fold.ranks.t2i, fold.captions))
        figures = [_weighted_measures(ranks, codes, weights) for ranks, codes in ways]
        recalls = sum(figure[: len(RECALLS)].sum(axis=0) for figure in figures)
        parts.append(np.vstack([*figures, recalls]))
    return np.concatenate(parts, axis=1)


def _weights(groups: int, resamples: int, random: np.random.Generator) -> np.ndarray:
    """(resamples, G) float64: how often each group is drawn."""
    drawn = random.integers(groups, size=(resamples, groups))
    cells = drawn + groups * np.arange(resamples)[:, None]
    counts = np.bincount(cells.ravel(), minlength=resamples * groups)
    return counts.reshape(resamples, groups).astype(np.float64)


def _weighted_measures(ranks: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(measures, resamples) for queries of the groups `codes`, counted as often as drawn.

    All sums are of whole numbers, hence exact and the same for any number of threads.
    """
    groups = weights.shape[1]

    def total(values: np.ndarray) -> np.ndarray:
        return np.asarray(weights @ np.bincount(codes, values, groups))

    queries = total(np.ones(len(ranks)))
    recalls = [100.0 * total(ranks <= k) / queries for k in RECALLS]
    order = np.argsort(ranks, kind="stable")
    passed = np.cumsum(weights[:, codes[order]], axis=1)
    middle = [
        (passed <= position[:, None]).sum(axis=1) for position in ((queries - 1) // 2, queries // 2)
    ]
    median = (ranks[order][middle[0]] + ranks[order][middle[1]]) / 2
    return np.array([*recalls, median, total(ranks) / queries])
