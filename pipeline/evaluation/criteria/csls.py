"""Cross-domain similarity local scaling (kNN-margin paper, eq. 6; Conneau et al. 2018)."""

from collections.abc import Sequence

from pipeline.evaluation.criterion import Criterion, WithTerms, nearest_means
from pipeline.evaluation.scores import Rescored, Scores
from pipeline.runtime.errors import WorkbenchError

SINGLE_QUERY = True


def views(scores: Scores, queries: Sequence[int], settings: Criterion) -> list[Scores]:
    """2 s less the means of the item's k nearest queries and of the query's k nearest items.

    Args:
        scores: (N, M) of a model.
        queries: axes of the queries, IMAGES or CAPTIONS.
        settings: k is used.

    Returns:
        The scores to rank by, the same for every axis.

    Raises:
        WorkbenchError: a k above N or M.
    """
    k = settings.k
    images, captions = scores.shape
    if not 1 <= k <= min(images, captions):
        raise WorkbenchError(
            f"inference.k = {k}: csls takes the k nearest of {images} images and {captions} "
            f"captions; allowed are 1 to {min(images, captions)}",
            "set inference.k in params.yaml",
        )
    of_images, of_captions = nearest_means(scores, k)
    return [Rescored(scores, WithTerms(2, -of_images, -of_captions))] * len(queries)


def reference(s: list[list[float]], settings: Criterion) -> list[list[float]]:
    """Scores of CSLS from sorted lists, for the tests.

    Args:
        s: scores, queries in rows.
        settings: k is read.

    Returns:
        Scores of the same form.
    """

    def mean(numbers: Sequence[float]) -> float:
        return sum(sorted(numbers, reverse=True)[: settings.k]) / settings.k

    of_items = [mean(column) for column in zip(*s, strict=True)]
    return [
        [2 * value - of_item - mean(row) for value, of_item in zip(row, of_items, strict=True)]
        for row in s
    ]
