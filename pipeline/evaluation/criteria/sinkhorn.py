"""A soft assignment of captions to images (Cuturi 2013)."""

from collections.abc import Sequence

from pipeline.evaluation.assignment import potentials
from pipeline.evaluation.criterion import Criterion, WithTerms
from pipeline.evaluation.scores import Rescored, Scores


def views(scores: Scores, queries: Sequence[int], settings: Criterion) -> list[Scores]:
    """log of the entropic transport plan of scores (N, M), the same for both directions."""
    u, v = potentials(scores, settings.beta, settings.iterations)
    return [Rescored(scores, WithTerms(settings.beta, u, v))] * len(queries)
