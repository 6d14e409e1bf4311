"""The product of the softmaxes over images and over captions (Rocco et al. 2018)."""

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
    """log of the product of the softmaxes of beta s over images and over captions.

    Cheng et al. 2021 take the score times the softmax, which reverses negative scores: not used.

    Args:
        scores: (N, M) of a model.
        queries: axes of the queries, IMAGES or CAPTIONS.
        settings: beta is used.

    Returns:
        The scores to rank by, the same for every axis.
    """
    beta = settings.beta
    over_captions, over_images = log_sum_exp(scores, [CAPTIONS, IMAGES], beta)
    change = WithTerms(2 * beta, -over_captions, -over_images)
    return [Rescored(scores, change)] * len(queries)


def reference(s: list[list[float]], settings: Criterion) -> list[list[float]]:
    """Log scores of the dual softmax from loops, for the tests.

    Args:
        s: scores, queries in rows.
        settings: beta is read.

    Returns:
        Scores of the same form.
    """
    turned = [list(column) for column in zip(*s, strict=True)]
    over_queries = slow_log_softmax(s, settings.beta)
    over_items = zip(*slow_log_softmax(turned, settings.beta), strict=True)
    return [
        [left + right for left, right in zip(*rows, strict=True)]
        for rows in zip(over_queries, over_items, strict=True)
    ]
