"""A soft assignment of captions to images (Cuturi 2013)."""

from collections.abc import Sequence

from pipeline.evaluation.assignment import potentials
from pipeline.evaluation.criterion import Criterion, WithTerms
from pipeline.evaluation.scores import Rescored, Scores


def views(scores: Scores, queries: Sequence[int], settings: Criterion) -> list[Scores]:
    """log of the entropic transport plan of scores.

    Args:
        scores: (N, M) of a model.
        queries: axes of the queries, IMAGES or CAPTIONS.
        settings: beta and iterations are used.

    Returns:
        The scores to rank by, the same for every axis.
    """
    u, v = potentials(scores, settings.beta, settings.iterations)
    return [Rescored(scores, WithTerms(settings.beta, u, v))] * len(queries)
