"""A hard assignment of captions to images: what is assigned to a query comes first."""

from collections.abc import Sequence

from pipeline.evaluation.assignment import assigned_scores
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.scores import Matrix, Scores
from pipeline.runtime.errors import WorkbenchError

WHOLE_MATRIX = True


def views(scores: Scores, queries: Sequence[int], settings: Criterion) -> list[Scores]:
    """What is assigned to a query first, then all others, each part in order of scores.

    Args:
        scores: (N, M) of a model, a Matrix.
        queries: axes of the queries, IMAGES or CAPTIONS.
        settings: none is used.

    Returns:
        A new matrix for each axis.

    Raises:
        WorkbenchError: products of embeddings, and more pairs than can be assigned.
    """
    if not isinstance(scores, Matrix):
        raise WorkbenchError(
            "inference.criteria: hungarian assigns all pairs at once and needs the whole matrix of "
            "scores, which embeddings were kept instead of",
            "set scoring.keep: scores in params.yaml, or use sinkhorn",
        )
    matrix = scores.matrix()
    return [Matrix(assigned_scores(matrix, axis), scores.block) for axis in queries]
