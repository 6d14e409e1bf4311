"""Inference criteria: scores that are ranked instead of the model's own, against hubs.

In high-dimensional spaces few items are the nearest neighbour of many queries (kNN-margin paper,
section 2.3). All criteria but `naive` are transductive: they look at all queries of the set at
once, and their figures are not to be compared with those of methods that see one query at a time.

A criterion is a file of pipeline/evaluation/criteria; here is what they are made of. `reduced` goes
through all scores tile by tile and gives numbers for each image or caption, such as the softmax's
sums; `WithTerms` adds such numbers to the scores. What is equal in a set of scores stays equal:
sums do not depend on the place of a line.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.evaluation.criteria import CRITERIA
from pipeline.evaluation.scores import Scores, as_scores, check_finite
from pipeline.evaluation.truth import Direction
from pipeline.runtime.errors import WorkbenchError

FLOAT32_LIMIT = float(np.finfo(np.float32).max)

IMAGES = 0  # axes of a score matrix
CAPTIONS = 1
QUERIES = {"i2t": IMAGES, "t2i": CAPTIONS}  # the axis of the queries, by direction
PARTS = 16  # of a line of a tile, of which the best are found first

# Numbers of each line: of every caption when reduced over images, of every image over captions.
Lines = tuple[np.ndarray, ...]
# From a tile, the axis to reduce over, and the images and captions of the tile to its lines.
OfTile = Callable[[np.ndarray, int, slice, slice], Lines]
# Two results for the same lines as one, those of earlier tiles first.
Combine = Callable[[Lines, Lines], Lines]


@dataclass(frozen=True)
class Criterion:
    """An inference criterion with its parameters; those it has no use for are ignored.

    Attributes:
        name: of a file of pipeline/evaluation/criteria.
        beta: inverse temperature of the softmaxes and of Sinkhorn, above 0.
        k: neighbours of CSLS, from 1 to the smaller number of images and captions.
        iterations: sweeps of Sinkhorn, from 1.
    """

    name: str
    beta: float = 30.0
    k: int = 10
    iterations: int = 20

    @property
    def transductive(self) -> bool:
        """Whether the score of a pair depends on the other queries of the set."""
        return bool(CRITERIA.constant(self.name, "TRANSDUCTIVE", True))

    def rescored(self, scores: np.ndarray, direction: Direction) -> np.ndarray:
        """The scores to rank for one direction.

        Args:
            scores: (N, M) floats, larger is better.
            direction: whether images or captions are the queries.

        Returns:
            (N, M) float32; of `naive` the same array.

        Raises:
            WorkbenchError: an unknown name, a k above N or M, and as `views`.
        """
        views = self.views(as_scores(np.require(scores, np.float32)), [direction])
        return views[0].matrix()

    def views(self, scores: Scores, directions: Sequence[Direction]) -> list[Scores]:
        """The scores to rank for each direction.

        Args:
            scores: (N, M) of a model.
            directions: whether images or captions are the queries.

        Returns:
            Scores of the same shape; of `naive` the scores themselves.

        Raises:
            WorkbenchError: NaN and infinity, and scores that leave float32's range on the way.
        """
        largest = largest_score(scores)
        # 8 covers the largest of the sums: potentials of Sinkhorn, twice the score, two terms
        if self.transductive and largest * 8 * max(1.0, self.beta) > FLOAT32_LIMIT:
            raise WorkbenchError(
                f"scores up to {largest:.3g} with inference.beta = {self.beta:g} leave the range "
                "of float32",
                "scale the scores down (cosines are meant), or use inference.criteria: [naive]",
            )
        queries = [QUERIES[way] for way in directions]
        views: list[Scores] = CRITERIA.load(self.name)(scores, queries, self)
        return views


@dataclass(frozen=True, eq=False)
class WithTerms:
    """Scores times a number, plus a term of each image and of each caption.

    Attributes:
        scale: the number.
        images: (N,) terms, None for none.
        captions: (M,) terms, None for none.
    """

    scale: float
    images: np.ndarray | None
    captions: np.ndarray | None

    def __call__(self, tile: np.ndarray, rows: slice, columns: slice) -> np.ndarray:
        """A new tile of a tile.

        Args:
            tile: (n, m) scores.
            rows: its images.
            columns: its captions.
        """
        result = tile * self.scale
        if self.captions is not None:
            result += self.captions[columns]
        if self.images is not None:
            result += self.images[rows, None]
        return result


def reduced(
    scores: Scores, axes: Sequence[int], of_tile: OfTile, combine: Combine
) -> dict[int, Lines]:
    """Scores reduced over images or captions, in one pass.

    Args:
        scores: (N, M).
        axes: those to reduce over: IMAGES gives M lines, CAPTIONS gives N.
        of_tile: lines of one tile. It may run in several threads at once.
        combine: two results for the same lines as one.

    Returns:
        By axis, the numbers of its lines.
    """

    def of_run(rows: slice) -> dict[int, Lines]:
        found: dict[int, list[Lines]] = {axis: [] for axis in axes}
        for columns in scores.columns():
            tile = scores.tile(rows, columns)
            for axis, parts in found.items():
                lines = of_tile(tile, axis, rows, columns)
                _add(parts, lines, combine if axis == CAPTIONS else None)
        return {axis: _joined(parts) for axis, parts in found.items()}

    whole: dict[int, list[Lines]] = {axis: [] for axis in axes}
    for run in scores.map_runs(of_run):
        for axis, parts in whole.items():
            _add(parts, run[axis], combine if axis == IMAGES else None)
    return {axis: _joined(parts) for axis, parts in whole.items()}


def _add(parts: list[Lines], lines: Lines, combine: Combine | None) -> None:
    """Combine with what is there, or put further lines behind it."""
    if combine and parts:
        parts[0] = combine(parts[0], lines)
    else:
        parts.append(lines)


def _joined(parts: list[Lines]) -> Lines:
    return tuple(map(np.concatenate, zip(*parts, strict=True)))


def largest_score(scores: Scores) -> float:
    """A number that no score exceeds in absolute value.

    Products of embeddings are bounded by the lengths of these, which takes no products.

    Raises:
        WorkbenchError: NaN or infinity.
    """
    bound = scores.bound()
    if bound < math.sqrt(FLOAT32_LIMIT):
        return bound
    low, high = score_range(scores)
    return max(-low, high)


def score_range(scores: Scores) -> tuple[float, float]:
    """The smallest and the largest score; WorkbenchError for NaN or infinity."""

    def of_run(rows: slice) -> tuple[float, float]:
        tiles = []
        for columns in scores.columns():
            tile = scores.tile(rows, columns)
            check_finite(tile, rows.start, columns.start)
            tiles.append((float(tile.min()), float(tile.max())))
        return min(low for low, _ in tiles), max(high for _, high in tiles)

    runs = list(scores.map_runs(of_run))
    return min(low for low, _ in runs), max(high for _, high in runs)


def log_sum_exp(
    scores: Scores,
    axes: Sequence[int],
    beta: float,
    offsets: Sequence[np.ndarray | None] = (None, None),
) -> list[np.ndarray]:
    """log of the sum of exp(beta * score + offset) over images or captions, without overflow.

    Args:
        scores: (N, M).
        axes: those to sum over: IMAGES or CAPTIONS.
        beta: above 0.
        offsets: of each image (N,) and of each caption (M,), None for none.

    Returns:
        For each axis float32: (M,) over images, (N,) over captions.
    """

    def exponentials(tile: np.ndarray, axis: int, rows: slice, columns: slice) -> Lines:
        """Of each line the largest exponent, and the sum of exp(exponent - it): (n,) or (m,)."""
        exponents = tile * beta
        offset = offsets[axis]
        if offset is not None:
            exponents += offset[rows, None] if axis == IMAGES else offset[columns]
        top = exponents.max(axis)
        exponents -= np.expand_dims(top, axis)
        np.exp(exponents, out=exponents)
        return top, exponents.sum(axis, dtype=np.float64)

    def added(earlier: Lines, later: Lines) -> Lines:
        top = np.maximum(earlier[0], later[0])
        total = sum(part[1] * np.exp(part[0] - top) for part in (earlier, later))
        return top, total

    sums = reduced(scores, axes, exponentials, added)
    logs = {axis: (np.log(total) + top).astype(np.float32) for axis, (top, total) in sums.items()}
    return [logs[axis] for axis in axes]


def nearest_means(scores: Scores, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Means of the largest scores of every image and of every caption.

    Args:
        scores: (N, M).
        k: how many scores, from 1 to the smaller of N and M.

    Returns:
        (N,) of the images and (M,) of the captions, float32.
    """

    def of_tile(tile: np.ndarray, axis: int, rows: slice, columns: slice) -> Lines:
        """The k largest scores of each line of a tile (n, m): (n, k) or (m, k)."""
        return (largest(tile if axis == CAPTIONS else tile.T, k),)

    def combined(earlier: Lines, later: Lines) -> Lines:
        return (largest(np.concatenate([*earlier, *later], axis=1), k),)

    best = reduced(scores, [CAPTIONS, IMAGES], of_tile, combined)
    # descending values: equal lines are summed alike
    of_images, of_captions = (
        best[axis][0].mean(1, dtype=np.float64).astype(np.float32) for axis in (CAPTIONS, IMAGES)
    )
    return of_images, of_captions


def largest(lines: np.ndarray, k: int) -> np.ndarray:
    """The largest scores of every line, descending.

    They stand at k places of a part at most, those with the largest value of any of PARTS, which
    leaves less to sort: sorting whole lines takes longer than making the products.

    Args:
        lines: (n, m) scores.
        k: how many of each line, from 1.

    Returns:
        (n, min(k, m)).
    """
    lines = np.ascontiguousarray(lines)
    width = lines.shape[1] // PARTS
    if width >= 2 * k:
        parts = lines[:, : PARTS * width].reshape(len(lines), PARTS, width)
        places = np.argpartition(parts.max(1), width - k, axis=1)[:, width - k :]
        candidates = np.take_along_axis(parts, places[:, None], axis=2).reshape(len(lines), -1)
        lines = np.concatenate([candidates, lines[:, PARTS * width :]], axis=1)
    return np.sort(lines, axis=1)[:, ::-1][:, :k]


def slow_log_softmax(s: Sequence[Sequence[float]], beta: float) -> list[list[float]]:
    """log of exp(beta s) / sum over queries of exp(beta s), from loops.

    Args:
        s: scores, a row per query.
        beta: above 0.

    Returns:
        As `s`.
    """
    out = [[0.0] * len(row) for row in s]
    for item, column in enumerate(zip(*s, strict=True)):
        top = max(column)
        total = sum(math.exp(beta * (score - top)) for score in column)
        for query, score in enumerate(column):
            out[query][item] = beta * (score - top) - math.log(total)
    return out
