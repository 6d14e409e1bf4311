"""What a matrix of scores loses by equal numbers: by digits that float32 does not hold, and by
items that score as high as the true ones. Equal scores count against a model."""

from collections.abc import Iterator

import numpy as np

from pipeline.evaluation.score_file import SplitScores
from pipeline.evaluation.scores import cuts
from pipeline.features.arrays.file import Array
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import say

HELD = 4  # bytes of a type that float32 holds, but for large whole numbers
FEW = 0.01  # of the rows and columns, that may lose their order at the top by chance
LINES = 1 << 7  # queries looked at at once


def check_digits(values: Array) -> None:
    """Compare scores in their own type with float32, in which they are kept.

    Args:
        values: (N, M) finite numbers.

    Raises:
        WorkbenchError: where more than FEW of the rows or columns have a best score that becomes
            equal to the next one; of fewer a line says so.
    """
    if values.dtype.kind == "f" and values.dtype.itemsize <= HELD:
        return
    rows = 0
    across = np.full((2, values.shape[1]), -np.inf)  # the best two different ones of each column
    for block in values.blocks():
        scores = block.astype(np.float64, copy=False)
        rows += _equal_in_float32(_best_two(scores.T)).sum()
        across = _best_two(np.concatenate([across, _best_two(scores)]))
    columns = _equal_in_float32(across).sum()
    if not rows and not columns:
        return
    text = (
        f"{values.place}: {values.dtype} with more digits than float32 holds: the best two scores "
        f"become equal in {rows:,} of {values.shape[0]:,} rows and {columns:,} of "
        f"{values.shape[1]:,} columns, and equal scores count against a model"
    )
    if max(rows / values.shape[0], columns / values.shape[1]) > FEW:
        raise WorkbenchError(
            text,
            "save scores that lie further apart: of probabilities near 1 the logits that they were "
            "made of, of others scores - scores.mean()",
        )
    say(text)


def _best_two(scores: np.ndarray) -> np.ndarray:
    """(2, M) the largest and the next smaller number of each column; -inf where there is none."""
    best = scores.max(axis=0)
    return np.stack([best, np.where(scores < best, scores, -np.inf).max(axis=0)])


def _equal_in_float32(best: np.ndarray) -> np.ndarray:
    """(M,) whether both numbers of a column are the same float32, which -inf never is."""
    with np.errstate(over="ignore"):
        first, second = best.astype(np.float32)
    return first == second


def tied_percentage(split: SplitScores) -> float:
    """Of how many queries, in both directions, the best true item scores as high as one that is not
    true.

    Args:
        split: with a matrix of scores (N, M).

    Returns:
        Percent of the N + M queries.
    """
    image_groups = np.asarray(split.image_groups)
    caption_groups = split.caption_groups
    ways = (
        (split.matrix, image_groups, caption_groups),
        (split.matrix.T, caption_groups, image_groups),
    )
    tied = sum(int(flags.sum()) for way in ways for flags in _tied(*way))
    return 100 * tied / (len(image_groups) + len(caption_groups))


def _tied(scores: np.ndarray, queries: np.ndarray, items: np.ndarray) -> Iterator[np.ndarray]:
    """Whether queries (rows) are tied, some at a time."""
    for rows in cuts(len(queries), LINES):
        part = scores[rows]
        is_true = queries[rows, None] == items
        best = np.where(is_true, part, -np.inf).max(axis=1, keepdims=True)
        yield ((part == best) & ~is_true).any(axis=1)
