"""A soft assignment of captions to images (Cuturi 2013)."""

from collections.abc import Sequence

from pipeline.evaluation.assignment import potentials
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.reductions import WithTerms
from pipeline.scores.tiles import Rescored, Tiles


def views(scores: Tiles, queries: Sequence[int], settings: Criterion) -> list[Tiles]:
    """log of the entropic transport plan of scores (N, M), the same for both directions."""
    u, v = potentials(scores, settings.beta, settings.iterations)
    return [Rescored(scores, WithTerms(settings.beta, u, v))] * len(queries)
