"""Scores normalised over the queries (kNN-margin paper, eq. 5)."""

from collections.abc import Sequence

from pipeline.evaluation.criterion import (
    CAPTIONS,
    IMAGES,
    Criterion,
    WithTerms,
    log_sum_exp,
    slow_log_softmax,
)
from pipeline.evaluation.scores import Rescored, Scores

SINGLE_QUERY = True


def views(scores: Scores, queries: Sequence[int], settings: Criterion) -> list[Scores]:
    """log of exp(beta s) / sum over queries of exp(beta s).

    The sum holds the query itself (Smith et al. 2017); eq. 5 leaves it out, p / (1 - p) instead of
    p: the same ranks.

    Args:
        scores: (N, M) of a model.
        queries: axes of the queries, IMAGES or CAPTIONS.
        settings: beta is used.

    Returns:
        The scores to rank by, for each axis.
    """
    views: list[Scores] = []
    for axis, total in zip(queries, log_sum_exp(scores, queries, settings.beta), strict=True):
        of_images = -total if axis == CAPTIONS else None
        of_captions = -total if axis == IMAGES else None
        views.append(Rescored(scores, WithTerms(settings.beta, of_images, of_captions)))
    return views


def reference(s: list[list[float]], settings: Criterion) -> list[list[float]]:
    """Log scores of the inverted softmax from loops, for the tests.

    Args:
        s: scores, queries in rows.
        settings: beta is read.

    Returns:
        Scores of the same form.
    """
    return slow_log_softmax(s, settings.beta)
