"""Scores normalised over the queries (kNN-margin paper, eq. 5)."""

from collections.abc import Sequence

from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.reductions import WithTerms, item_terms, log_sum_exp, slow_log_softmax
from pipeline.scores.tiles import Rescored, Tiles

SINGLE_QUERY = True


def views(scores: Tiles, queries: Sequence[int], settings: Criterion) -> list[Tiles]:
    """log of exp(beta s) / sum over queries of exp(beta s).

    The sum holds the query itself (Smith et al. 2017); eq. 5 leaves it out. With p the softmax
    over all queries that form is p / (1 - p), which grows with p: the ranks are the same.

    Args:
        scores: (N, M).
        queries: IMAGES or CAPTIONS, each once.
        settings: beta.
    """
    sums = log_sum_exp(scores, queries, settings.beta)
    return [
        Rescored(scores, WithTerms(settings.beta, *item_terms(-own, axis)))
        for own, axis in zip(sums, queries, strict=True)
    ]


def reference(s: list[list[float]], settings: Criterion) -> list[list[float]]:
    """The same from loops, queries in rows."""
    return slow_log_softmax(s, settings.beta)
