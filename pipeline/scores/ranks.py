"""Exact ranks of true items, both directions, in bounded memory.

Public code counts only items scored strictly above the true one (a collapsed model is then
perfect), takes the true score from another product than the rest (an item then outranks itself)
or lets NaN through. Here ties count against the model, true items never outrank each other in the
rank of the best, and anything that is not a finite number is an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.counting import Asked, OtherTiles, OwnTiles, Views, falling
from pipeline.scores.groups import Groups, TruePairs, group_codes
from pipeline.scores.positives import Positives
from pipeline.scores.ranking import DIRECTIONS, Direction, Ranking
from pipeline.scores.tiles import Rescored, Tiles, as_tiles


@dataclass(frozen=True)
class Ranks:
    """1-based rank of the best-ranked true item of every query.

    i2t: (N,) int64, image queries over M captions; t2i: (M,) int64, caption queries over N images.
    """

    i2t: np.ndarray
    t2i: np.ndarray


@dataclass(frozen=True, eq=False)
class Wanted:
    """Queries of one direction whose true items are to be ranked.

    Attributes:
        scores: by which they are ranked.
        way: whether images or captions are the queries.
        query: (P,) number of the query of every true pair, rising.
        item: (P,) number of its item.
        grade: (P,) how true it is, None for all alike.
        depth: of how many true items the ranks are wanted, None for all.
    """

    scores: Tiles
    way: Direction
    query: np.ndarray
    item: np.ndarray
    grade: np.ndarray | None = None
    depth: int | None = None


def retrieval_ranks(
    scores: np.ndarray | Tiles, image_groups: Groups, caption_groups: Groups
) -> Ranks:
    """Rank both directions of a score matrix.

    rank = 1 + number of items that are not true and score at least as high as the best true item.
    An image and a caption belong together when their groups are equal.

    Args:
        scores: (N images, M captions) floats, larger is better.
        image_groups: (N,) integers or strings.
        caption_groups: (M,) integers or strings.

    Raises:
        WorkbenchError: empty or ill-shaped input, NaN or infinity, a query without true item.
    """
    codes = group_codes(image_groups, caption_groups)
    tiles = checked_tiles(scores, len(codes[0]), len(codes[1]))
    i2t, t2i = ranked([of_groups(tiles, *codes, way, 1) for way in DIRECTIONS])
    return Ranks(i2t.ranks[:, 0].astype(np.int64), t2i.ranks[:, 0].astype(np.int64))


def checked_tiles(scores: np.ndarray | Tiles, images: int, captions: int) -> Tiles:
    """Scores as tiles.

    Args:
        scores: what they are.
        images: how many there should be.
        captions: likewise.

    Raises:
        WorkbenchError: another shape, or no matrix of floats.
    """
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
    """All queries of one direction, true items being those of their group.

    Args:
        scores: of N images and M captions.
        images: (N,) group numbers; every query needs an item of its group.
        captions: (M,) group numbers.
        way: whether images or captions are the queries.
        depth: as in `Wanted`.
    """
    codes = (images, captions) if way == "i2t" else (captions, images)
    query, item = TruePairs(*codes).of(slice(0, len(codes[0])))
    return Wanted(scores, way, query, item, None, depth)


def of_positives(scores: Tiles, positives: Positives, way: Direction) -> Wanted:
    """The queries of one direction that have positives.

    Args:
        scores: of N images and M captions.
        positives: true items of the queries: of N images or of M captions.
        way: whether images or captions are the queries.

    Raises:
        WorkbenchError: scores of other queries or items.
    """
    queries, items = len(positives.starts) - 1, positives.num_items
    scores = checked_tiles(scores, *((queries, items) if way == "i2t" else (items, queries)))
    return Wanted(scores, way, *positives.of(slice(0, queries)))


def ranked(wanted: Sequence[Wanted]) -> list[Ranking]:
    """The ranks of true items, for each of `wanted`, of the queries that have any.

    Scores are gone through once for all that are made of the same ones, the tiles with true pairs
    first: all others are compared with the scores of these. The former are counted where they
    stand, for every query whose true items are among the same images, so that they need not be
    made twice. The time grows with the largest number of true items of a query: one comparison of
    every score each. Memory holds the true pairs and some tiles.

    Args:
        wanted: what is to be ranked, by scores of one shape.

    Raises:
        WorkbenchError: NaN or infinity, naming one.
    """
    found: dict[int, Ranking] = {}
    bases = {id(base): base for base in (_base(one.scores) for one in wanted)}
    for key, base in bases.items():
        chosen = [n for n, one in enumerate(wanted) if id(_base(one.scores)) == key]
        views = Views([wanted[n].scores for n in chosen])
        sides = [_Side(wanted[n]) for n in chosen]
        asked = [side.asked for side in sides]
        seen = list(base.each(OwnTiles(views, asked)))
        for n, side in enumerate(sides):
            side.learn([part.scores[n] for part in seen], [part.reached[n] for part in seen])
        counted = {rows.start: part.columns for rows, part in zip(base.rows(), seen, strict=True)}
        others = OtherTiles(views, asked, [side.levels for side in sides], counted)
        for part in base.each(others):
            for side, reached in zip(sides, part, strict=True):
                side.add(reached)
        found |= {n: side.ranking() for n, side in zip(chosen, sides, strict=True)}
    return [found[n] for n in range(len(wanted))]


def _base(scores: Tiles) -> Tiles:
    return scores.base if isinstance(scores, Rescored) else scores


class _Side:
    """The queries of one of `wanted`: their true scores, and how many items reach these."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted, way = wanted, wanted.way
        queries, self.query = np.unique(wanted.query, return_inverse=True)
        pair = (wanted.query, wanted.item) if way == "i2t" else (wanted.item, wanted.query)
        self.order = np.lexsort(pair[::-1])
        counts = np.bincount(self.query, minlength=len(queries))
        starts = np.cumsum(counts) - counts
        ends = [end.reduceat(pair[0], starts) if len(starts) else starts
                for end in (np.minimum, np.maximum)]  # fmt: skip
        pairs, query = (pair[0][self.order], pair[1][self.order]), self.query[self.order]
        self.asked = Asked(way, queries, counts, (ends[0], ends[1]), pairs, query, wanted.depth)
        self.parts: list[np.ndarray] = []

    def learn(self, scores: Sequence[np.ndarray], reached: Sequence[np.ndarray]) -> None:
        """Take in what every run of images has found in tiles with true pairs.

        Args:
            scores: those of its pairs, together those of `asked.pairs`.
            reached: how many items of these tiles reach those of queries that have no others.
        """
        found = [part for part in scores if len(part)]
        values = np.concatenate(found or [np.empty(0, np.float32)])
        self.own = np.empty_like(values)
        self.own[self.order] = values
        self.true = falling(self.query, self.own, self.asked.counts)
        self.levels = np.ascontiguousarray(self.true[:, : self.wanted.depth])
        self.reached = sum(reached) if self.wanted.way == "t2i" else np.concatenate(reached)

    def add(self, reached: np.ndarray) -> None:
        """Take in what a run of images has found: of its own image queries, or of all captions."""
        if self.wanted.way == "t2i" and self.parts:
            self.parts[0] += reached
        else:
            self.parts.append(reached)

    def ranking(self) -> Ranking:
        reached, true = np.concatenate(self.parts) + self.reached, self.true
        ranks: np.ndarray = np.empty(reached.shape)
        for better in range(ranks.shape[1]):
            own = (true >= true[:, better : better + 1]).sum(axis=1)
            ranks[:, better] = 1 + better + reached[:, better] - own
        ranks[np.arange(ranks.shape[1]) >= self.asked.counts[:, None]] = np.inf
        gains = np.isfinite(ranks).astype(np.float64)
        grade = self.wanted.grade
        if grade is not None:
            gains[gains > 0] = grade[np.lexsort((grade, -self.own, self.query))]
        return Ranking(ranks, gains)
