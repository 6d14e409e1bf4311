"""Exact ranks of true items, both directions, in memory that some tiles of scores bound.

Ties count against the model, true items never outrank each other in the rank of the best, and
anything that is not a finite number is an error.

All scores are gone through twice, tile by tile: for those of the true pairs, and to count how many
items of each query score as high. Only tiles with true pairs are made in the first pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from threading import Lock

import numpy as np

from pipeline.evaluation.scores import Scores, check_finite, checked_scores
from pipeline.evaluation.truth import (
    DIRECTIONS,
    Direction,
    Groups,
    Positives,
    Ranking,
    group_codes,
    true_pairs,
    values_descending,
)

COUNT = np.uint16  # what the lines of a tile are counted in: tiles are smaller, and sums quick


@dataclass(frozen=True)
class Ranks:
    """1-based rank of the best-ranked true item of every query.

    Attributes:
        i2t: (N,) int64, image queries over M captions.
        t2i: (M,) int64, caption queries over N images.
    """

    i2t: np.ndarray
    t2i: np.ndarray


@dataclass(frozen=True, eq=False)
class RankRequest:
    """Queries of one direction whose true items are to be ranked.

    Attributes:
        scores: (N images, M captions) by which they are ranked.
        way: whether images or captions are the queries.
        query: (P,) number of the query of every true pair, ascending.
        item: (P,) number of its item.
        grade: (P,) how true it is, None for all alike.
        depth: of how many true items of a query the ranks are wanted, None for all.
    """

    scores: Scores
    way: Direction
    query: np.ndarray
    item: np.ndarray
    grade: np.ndarray | None = None
    depth: int | None = None


def retrieval_ranks(
    scores: np.ndarray | Scores, image_groups: Groups, caption_groups: Groups
) -> Ranks:
    """Rank both directions: 1 + the number of items that are not true and score at least as high as
    the best true item.

    Args:
        scores: (N images, M captions) floats, larger is better.
        image_groups: (N,) integers or strings. An image and a caption belong together when their
            groups are equal.
        caption_groups: (M,) integers or strings.

    Returns:
        Ranks of images and of captions, from 1.

    Raises:
        WorkbenchError: shapes that do not fit, integer scores, NaN and infinity, no images or
            captions, and an image or caption that nothing belongs to.
    """
    images, captions = group_codes(image_groups, caption_groups)
    checked = checked_scores(scores, len(images), len(captions))
    i2t, t2i = ranked([request_of_groups(checked, images, captions, way, 1) for way in DIRECTIONS])
    return Ranks(i2t.ranks[:, 0].astype(np.int64), t2i.ranks[:, 0].astype(np.int64))


def request_of_groups(
    scores: Scores,
    images: np.ndarray,
    captions: np.ndarray,
    way: Direction,
    depth: int | None = None,
) -> RankRequest:
    """All queries of one direction, true items being those of their group.

    Args:
        scores: (N, M) by which they are ranked.
        images: (N,) group numbers; every query needs an item of its group.
        captions: (M,) group numbers.
        way: whether images or captions are the queries.
        depth: of how many true items of a query the ranks are wanted, None for all.

    Returns:
        What `ranked` takes.
    """
    if way == "i2t":
        query, item = true_pairs(images, captions)
    else:
        query, item = true_pairs(captions, images)
    return RankRequest(scores, way, query, item, depth=depth)


def request_of_positives(
    scores: np.ndarray | Scores, positives: Positives, way: Direction
) -> RankRequest:
    """The queries of one direction that have extended positives.

    Args:
        scores: (N, M) by which they are ranked.
        positives: their true items.
        way: whether images or captions are the queries.

    Returns:
        What `ranked` takes.

    Raises:
        WorkbenchError: scores of another shape than the positives.
    """
    images, captions = positives.size if way == "i2t" else positives.size[::-1]
    checked = checked_scores(scores, images, captions)
    return RankRequest(checked, way, positives.query, positives.item, positives.grade)


def ranked(requests: Sequence[RankRequest]) -> list[Ranking]:
    """The ranks of true items, for each request, of the queries that have any.

    Requests beside each other that rank the same scores, or what criteria make of them, are
    answered together, so that each tile is made once. Memory holds the true pairs and some tiles.

    Raises:
        WorkbenchError: NaN or infinity, naming one score.
    """
    rankings: list[Ranking] = []
    for _, alike in groupby(requests, lambda request: id(request.scores.source)):
        counters = [_Counter(request) for request in alike]
        _count_through(counters[0].scores.source, counters)
        rankings += [counter.ranking() for counter in counters]
    return rankings


def _count_through(source: Scores, counters: Sequence["_Counter"]) -> None:
    """Go through the scores that all counters rank twice, as the head of this file says."""

    def tiles(rows: slice, columns: slice) -> list[np.ndarray]:
        """One tile as each counter ranks it; counters may share their scores."""
        plain = source.tile(rows, columns)
        check_finite(plain, rows.start, columns.start)
        views = {
            scores: scores.from_source(plain, rows, columns)
            for scores in {counter.scores for counter in counters}
        }
        return [views[counter.scores] for counter in counters]

    def read_true_scores(rows: slice) -> None:
        for columns in source.columns():
            pairs = [counter.pairs_inside(rows, columns) for counter in counters]
            if any(map(len, pairs)):
                made = tiles(rows, columns)
                for counter, tile, inside in zip(counters, made, pairs, strict=True):
                    counter.read_true_scores(tile, rows, columns, inside)

    def count_items(rows: slice) -> None:
        for columns in source.columns():
            for counter, tile in zip(counters, tiles(rows, columns), strict=True):
                counter.count_items(tile, rows, columns)

    for _ in source.map_runs(read_true_scores):
        pass
    for counter in counters:
        counter.begin_counting()
    for _ in source.map_runs(count_items):
        pass


class _Counter:
    """What a request is answered from: scores of its true pairs, and counts of items.

    Its methods may run in several threads, each with other images.
    """

    def __init__(self, request: RankRequest) -> None:
        self.scores = request.scores
        self.is_i2t = request.way == "i2t"
        self.grade = request.grade
        self.depth = request.depth
        self.queries, self.query = np.unique(request.query, return_inverse=True)  # (Q,), (P,)
        self.true_counts = np.bincount(self.query, minlength=len(self.queries))
        image = request.query if self.is_i2t else request.item
        caption = request.item if self.is_i2t else request.query
        self.order = np.lexsort((caption, image))  # of the pairs, as runs of images need them
        self.image = image[self.order]
        self.caption = caption[self.order]
        self.true_scores = np.empty(len(image), request.scores.dtype)  # (P,) in the request's order
        self.lock = Lock()

    def pairs_inside(self, rows: slice, columns: slice) -> np.ndarray:
        """Which of the true pairs, in the order of their images, lie in the tile of some images
        (rows) and captions (columns)."""
        first, last = np.searchsorted(self.image, (rows.start, rows.stop))
        caption = self.caption[first:last]
        return first + np.flatnonzero((caption >= columns.start) & (caption < columns.stop))

    def read_true_scores(
        self, tile: np.ndarray, rows: slice, columns: slice, pairs: np.ndarray
    ) -> None:
        """Keep the scores of the pairs of a tile (n, m), as `pairs_inside` finds them: (P,)."""
        row = self.image[pairs] - rows.start
        column = self.caption[pairs] - columns.start
        self.true_scores[self.order[pairs]] = tile[row, column]

    def begin_counting(self) -> None:
        """Sort the scores of all true pairs, which must have been read."""
        self.levels = values_descending(self.query, self.true_scores, self.true_counts)  # (Q, R)
        self.counts: np.ndarray = np.zeros(self.levels[:, : self.depth].shape, np.int64)

    def count_items(self, tile: np.ndarray, rows: slice, columns: slice) -> None:
        """Count the items in a tile (n, m) that score at least as high as a query's true items."""
        lines = rows if self.is_i2t else columns
        first, last = np.searchsorted(self.queries, (lines.start, lines.stop))
        if last - first < lines.stop - lines.start:
            axis = 0 if self.is_i2t else 1
            tile = tile.take(self.queries[first:last] - lines.start, axis)
        for depth in range(self.counts.shape[1]):
            level = self.levels[first:last, depth]
            if not (level > -np.inf).any():  # no query of the tile has so many true items
                break
            if self.is_i2t:
                counts = (tile >= level[:, None]).sum(1, dtype=COUNT)
            else:
                counts = (tile >= level).sum(0, dtype=COUNT)
            with self.lock:
                self.counts[first:last, depth] += counts

    def ranking(self) -> Ranking:
        """The ranks; behind all items of equal score, but not behind true ones of it."""
        ranks: np.ndarray = np.empty(self.counts.shape)
        for better in range(ranks.shape[1]):
            true_counts = (self.levels >= self.levels[:, better : better + 1]).sum(axis=1)
            ranks[:, better] = 1 + better + self.counts[:, better] - true_counts
        ranks[np.arange(ranks.shape[1]) >= self.true_counts[:, None]] = np.inf
        gains = np.isfinite(ranks).astype(np.float64)
        if self.grade is not None:
            gains[gains > 0] = self.grade[np.lexsort((self.grade, -self.true_scores, self.query))]
        return Ranking(ranks, gains)
