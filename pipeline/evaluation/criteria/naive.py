"""The model's own scores."""

from collections.abc import Sequence

from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.scores import Scores

TRANSDUCTIVE = False
SINGLE_QUERY = True


def views(scores: Scores, queries: Sequence[int], settings: Criterion) -> list[Scores]:
    """The scores as they are.

    Args:
        scores: (N, M) of a model.
        queries: axes of the queries, IMAGES or CAPTIONS.
        settings: none is used.

    Returns:
        The scores, once for each axis.
    """
    return [scores.for_queries(axis) for axis in queries]


def reference(s: list[list[float]], settings: Criterion) -> list[list[float]]:
    """The scores as they are.

    Args:
        s: scores, queries in rows.
        settings: not read.

    Returns:
        Scores of the same form.
    """
    return s
