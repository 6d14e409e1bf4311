"""Scores normalised over the queries (kNN-margin paper, eq. 5)."""

from collections.abc import Sequence

from pipeline.evaluation.criterion import (
    IMAGES,
    Criterion,
    WithTerms,
    log_sum_exp,
    slow_log_softmax,
)
from pipeline.evaluation.scores import Rescored, Scores

SINGLE_QUERY = True


def views(scores: Scores, queries: Sequence[int], settings: Criterion) -> list[Scores]:
    """log of exp(beta s) / sum over queries of exp(beta s); scores (N, M). The sum holds the query
    itself (Smith et al. 2017); eq. 5 leaves it out, p / (1 - p) instead of p: the same ranks."""
    sums = log_sum_exp(scores, queries, settings.beta)
    changes = (
        WithTerms(settings.beta, *((None, -total) if axis == IMAGES else (-total, None)))
        for total, axis in zip(sums, queries, strict=True)
    )
    return [Rescored(scores, change) for change in changes]


def reference(s: list[list[float]], settings: Criterion) -> list[list[float]]:
    return slow_log_softmax(s, settings.beta)
