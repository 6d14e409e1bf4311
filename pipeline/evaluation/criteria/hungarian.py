"""A hard assignment of captions to images: what is assigned to a query comes first."""

from collections.abc import Sequence

from pipeline.evaluation.assignment import assigned_scores
from pipeline.evaluation.criterion import Criterion
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.tiles import Matrix, Tiles

WHOLE_MATRIX = True


def views(scores: Tiles, queries: Sequence[int], settings: Criterion) -> list[Tiles]:
    """A new matrix for every axis of queries.

    Args:
        scores: (N, M), a Matrix.
        queries: IMAGES or CAPTIONS, each once.
        settings: none of them.

    Raises:
        WorkbenchError: embeddings instead of a matrix, more pairs than can be assigned.
    """
    if not isinstance(scores, Matrix):
        raise WorkbenchError(
            "inference.criteria: hungarian assigns all pairs at once and needs the whole matrix of "
            "scores, which embeddings were kept instead of",
            "set scoring.keep: scores in params.yaml, or use sinkhorn",
        )
    matrix = scores.matrix()
    return [Matrix(assigned_scores(matrix, axis), scores.block) for axis in queries]
