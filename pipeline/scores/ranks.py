"""Exact ranks of true items, both directions, in bounded memory.

Ties count against the model, true items never outrank each other in the rank of the best, and
anything that is not a finite number is an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.counting import Asked, reached, true_scores
from pipeline.scores.groups import Groups, group_codes, true_pairs
from pipeline.scores.positives import Positives, descending
from pipeline.scores.ranking import DIRECTIONS, Direction, Ranking
from pipeline.scores.tiles import Rescored, Tiles, as_tiles


@dataclass(frozen=True)
class Ranks:
    """1-based rank of the best-ranked true item of every query."""

    i2t: np.ndarray  # (N,) int64, image queries over M captions
    t2i: np.ndarray  # (M,) int64, caption queries over N images


class Wanted:
    """Queries of one direction whose true items are to be ranked. query: (P,) number of the query
    of every true pair, ascending; item: (P,) number of its item; grade: (P,) how true it is, None
    for all alike; depth: of how many true items the ranks are wanted, None for all."""

    def __init__(
        self,
        scores: Tiles,
        way: Direction,
        query: np.ndarray,
        item: np.ndarray,
        grade: np.ndarray | None = None,
        depth: int | None = None,
    ) -> None:
        self.grade, self.base, change = grade, scores, None
        if isinstance(scores, Rescored):
            self.base, change = scores.base, scores.change
        queries, self.query = np.unique(query, return_inverse=True)
        pair = (query, item) if way == "i2t" else (item, query)
        self.order = np.lexsort(pair[::-1])
        counts = np.bincount(self.query, minlength=len(queries))
        pairs = pair[0][self.order], pair[1][self.order]
        self.asked = Asked(way, change, queries, counts, pairs, depth)

    def learn(self, scores: Sequence[np.ndarray]) -> None:
        """Take in the scores (p,) of the pairs of every run of images."""
        values = np.concatenate([part for part in scores if len(part)] or [np.empty(0, np.float32)])
        self.parts: list[np.ndarray] = []
        self.scores = np.empty_like(values)
        self.scores[self.order] = values
        self.true = descending(self.query, self.scores, self.asked.counts)
        self.levels = np.ascontiguousarray(self.true[:, : self.asked.depth])

    def add(self, counts: np.ndarray) -> None:
        """Take in counts (q, R) of a run of images: of its image queries, or of all captions."""
        if self.asked.way == "t2i" and self.parts:
            self.parts[0] += counts
        else:
            self.parts.append(counts)

    def ranking(self) -> Ranking:
        counts, true = np.concatenate(self.parts), self.true
        ranks: np.ndarray = np.empty(counts.shape)
        for better in range(ranks.shape[1]):
            true_counts = (true >= true[:, better : better + 1]).sum(axis=1)
            ranks[:, better] = 1 + better + counts[:, better] - true_counts
        ranks[np.arange(ranks.shape[1]) >= self.asked.counts[:, None]] = np.inf
        gains = np.isfinite(ranks).astype(np.float64)
        if self.grade is not None:
            gains[gains > 0] = self.grade[np.lexsort((self.grade, -self.scores, self.query))]
        return Ranking(ranks, gains)


def retrieval_ranks(
    scores: np.ndarray | Tiles, image_groups: Groups, caption_groups: Groups
) -> Ranks:
    """Rank both directions of scores (N images, M captions), larger is better. rank = 1 + number
    of items that are not true and score at least as high as the best true item. An image and a
    caption belong together when their groups, (N,) and (M,) integers or strings, are equal.
    WorkbenchError for shapes that do not fit, integer scores, NaN and infinity, no images or
    captions, and an image or caption that nothing belongs to."""
    codes = group_codes(image_groups, caption_groups)
    tiles = checked_tiles(scores, len(codes[0]), len(codes[1]))
    i2t, t2i = ranked([of_groups(tiles, *codes, way, 1) for way in DIRECTIONS])
    return Ranks(i2t.ranks[:, 0].astype(np.int64), t2i.ranks[:, 0].astype(np.int64))


def checked_tiles(scores: np.ndarray | Tiles, images: int, captions: int) -> Tiles:
    """Scores (N, M) as tiles; WorkbenchError unless they are of so many images and captions."""
    tiles = as_tiles(scores)
    if tiles.shape != (images, captions):
        raise WorkbenchError(
            f"scores of shape {tiles.shape} for {images} images and {captions} captions: expected "
            "a float matrix (images, captions)"
        )
    return tiles


def of_groups(
    scores: Tiles,
    images: np.ndarray,
    captions: np.ndarray,
    way: Direction,
    depth: int | None = None,
) -> Wanted:
    """All queries of one direction, true items being those of their group. images: (N,) group
    numbers; captions: (M,) group numbers; every query needs an item of its group."""
    codes = (images, captions) if way == "i2t" else (captions, images)
    query, item = true_pairs(*codes)
    return Wanted(scores, way, query, item, None, depth)


def of_positives(scores: Tiles, positives: Positives, way: Direction) -> Wanted:
    """The queries of one direction that have positives, with scores of the same shape."""
    scores = checked_tiles(scores, *positives.size[:: 1 if way == "i2t" else -1])
    return Wanted(scores, way, *positives.pairs)


def ranked(wanted: Sequence[Wanted]) -> list[Ranking]:
    """The ranks of true items, for each of `wanted`, of the queries that have any. Scores are gone
    through twice: for those of true pairs, then to count what scores as high. Memory holds the true
    pairs and some tiles. WorkbenchError for NaN or infinity, naming one."""
    rankings: list[Ranking] = []
    for _, alike in groupby(wanted, lambda side: id(side.base)):
        sides = list(alike)
        base, asked = sides[0].base, [side.asked for side in sides]
        scores = zip(*base.each(partial(true_scores, asked)), strict=True)
        for side, parts in zip(sides, scores, strict=True):
            side.learn(parts)
        for counts in base.each(partial(reached, asked, [side.levels for side in sides])):
            for side, part in zip(sides, counts, strict=True):
                side.add(part)
        rankings += [side.ranking() for side in sides]
    return rankings
