"""Percentile bootstrap of retrieval metrics: how far a figure could move with other test queries.

An image and its captions are drawn together, since their ranks go together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.evaluation.figures import (
    RECALLS,
    Measured,
    average,
    concatenated,
    plain_rows,
    rounded,
    summarise,
    summary_of,
)
from pipeline.evaluation.metrics import Metric
from pipeline.evaluation.truth import DIRECTIONS, Direction

CELLS = 1 << 22  # weights held at once: 32 MB of float64


@dataclass(frozen=True, eq=False)
class MeasuredFold:
    """What N image and M caption queries of one fold reach.

    Attributes:
        measured: by direction.
        images: (N,) int64 group numbers from 0.
        captions: (M,) int64 group numbers from 0.
    """

    measured: Mapping[Direction, Measured]
    images: np.ndarray
    captions: np.ndarray


def summarised(
    found: Mapping[str, Sequence[MeasuredFold]],
    rows: Mapping[Direction, np.ndarray],
    resamples: int,
    confidence: float,
    seed: int,
    metrics: Sequence[Metric] | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, dict[Direction, Measured]]]:
    """Figures averaged over folds, their intervals, and what each query reaches.

    Args:
        found: by criterion, what the queries of each fold reach.
        rows: by direction (Q,) numbers of all folds' queries in the split, fold by fold.
        resamples: bootstrap draws, 0 for no intervals.
        confidence: share of the draws inside an interval, between 0 and 1.
        seed: of the draws.
        metrics: that figures are wanted of, None for all but the extended.

    Returns:
        By criterion, figures as `figures.summarise`, intervals [low, high] of these (empty without
        resamples), and what the queries reach in the order of the split.
    """
    figures = {}
    intervals = {}
    measured = {}
    for name, folds in found.items():
        by_fold = [summarise(fold.measured, metrics) for fold in folds]
        figures[name] = rounded(average(by_fold))
        if resamples:
            drawn = bootstrap_intervals(folds, resamples, confidence, seed, metrics)
            intervals[name] = rounded(drawn)
        measured[name] = {
            way: concatenated([fold.measured[way] for fold in folds]).of(np.argsort(rows[way]))
            for way in DIRECTIONS
        }
    return figures, intervals, measured


def bootstrap_intervals(
    folds: Sequence[MeasuredFold],
    resamples: int,
    confidence: float,
    seed: int,
    metrics: Sequence[Metric] | None = None,
) -> dict[str, Any]:
    """An interval of every figure; rsum is summed draw by draw, as the recalls vary together.

    Args:
        folds: what their queries reach.
        resamples: bootstrap draws, from 1.
        confidence: share of the draws inside an interval, between 0 and 1.
        seed: of the draws.
        metrics: that figures are wanted of, None for all but the extended.

    Returns:
        As `figures.summarise`, with [low, high] for every figure.
    """
    low, high = limits(resampled(folds, resamples, seed, metrics), confidence)
    return summary_of([[float(a), float(b)] for a, b in zip(low, high, strict=True)], metrics)


def resampled(
    folds: Sequence[MeasuredFold],
    resamples: int,
    seed: int,
    metrics: Sequence[Metric] | None = None,
) -> np.ndarray:
    """Every draw's figures, means over the folds.

    The draws depend on groups and seed alone: two runs of the same queries are drawn alike.

    Args:
        folds: what their queries reach.
        resamples: bootstrap draws, from 1.
        seed: of the draws.
        metrics: that figures are wanted of, None for all but the extended.

    Returns:
        (F, resamples), a row for each of `figures.columns_of`.
    """
    random = np.random.default_rng(seed)
    rows = metrics or plain_rows()
    drawn = [_draws(fold, resamples, random, rows) for fold in folds]
    return np.asarray(np.mean(drawn, axis=0))


def limits(drawn: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Percentile intervals.

    Args:
        drawn: (F, resamples) what each draw gives.
        confidence: share of the draws inside an interval, between 0 and 1.

    Returns:
        Lower and upper ends, (F,) each, of the middle `confidence` of the draws.
    """
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(drawn, [tail, 100.0 - tail], axis=1)
    return low, high


def _draws(
    fold: MeasuredFold, resamples: int, random: np.random.Generator, metrics: Sequence[Metric]
) -> np.ndarray:
    groups = int(max(fold.images.max(), fold.captions.max())) + 1
    asking = [np.bincount(codes, minlength=groups) > 0 for codes in (fold.images, fold.captions)]
    step = max(1, CELLS // max(groups, len(fold.images), len(fold.captions)))
    recalls = [[metric.name for metric in metrics].index(name) for name in RECALLS]
    ways = ((fold.measured["i2t"], fold.images), (fold.measured["t2i"], fold.captions))
    parts = []
    for start in range(0, resamples, step):
        weights = _weights(asking, min(step, resamples - start), random)
        figures = [_figures(m.values, codes, weights, metrics) for m, codes in ways]
        rsum = sum(figure[recalls].sum(axis=0) for figure in figures)
        parts.append(np.vstack([*figures, rsum]))
    return np.concatenate(parts, axis=1)


def _weights(
    asking: Sequence[np.ndarray], resamples: int, random: np.random.Generator
) -> np.ndarray:
    """(resamples, G) float64: how often each group is drawn. asking: (G,) by direction, whether a
    group has queries. A draw without any query of a direction has no figure: it is drawn anew."""
    groups = len(asking[0])
    partial = [flags for flags in asking if not flags.all()]
    weights = np.empty((resamples, groups))
    lacks = np.ones(resamples, bool)
    while lacks.any():
        drawn = random.integers(groups, size=(int(lacks.sum()), groups))
        cells = drawn + groups * np.arange(len(drawn))[:, None]
        weights[lacks] = np.bincount(cells.ravel(), minlength=drawn.size).reshape(drawn.shape)
        lacks = np.any([~weights[:, flags].any(axis=1) for flags in partial], axis=0)
    return weights


def _figures(
    values: Mapping[str, np.ndarray],
    codes: np.ndarray,
    weights: np.ndarray,
    metrics: Sequence[Metric],
) -> np.ndarray:
    """(metrics, resamples); summed without BLAS, hence the same for any number of threads."""
    groups = weights.shape[1]

    def total(numbers: np.ndarray) -> np.ndarray:
        return np.einsum("rg,g->r", weights, np.bincount(codes, numbers, groups))

    queries = total(np.ones(len(codes)))
    return np.array(
        [
            _weighted_median(values[metric.name], codes, weights, queries)
            if metric.summary == "median"
            else total(values[metric.name]) / queries
            for metric in metrics
        ]
    )


def _weighted_median(
    values: np.ndarray, codes: np.ndarray, weights: np.ndarray, queries: np.ndarray
) -> np.ndarray:
    """(resamples,) medians of values (Q,), each as often as its group; queries: how many in all."""
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[:, codes[order]], axis=1)
    low, high = (
        (passed <= position[:, None]).sum(axis=1) for position in ((queries - 1) // 2, queries // 2)
    )
    return np.asarray((values[order][low] + values[order][high]) / 2)
