"""Exact ranks of true items, both directions, in bounded memory.

Public code counts only items scored strictly above the true one (a collapsed model is then
perfect), takes the true score from another product than the rest (an item then outranks itself)
or lets NaN through. Here ties count against the model, true items never outrank each other in the
rank of the best, and anything that is not a finite number is an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.groups import Groups, TruePairs, group_codes
from pipeline.scores.positives import Positives
from pipeline.scores.ranking import DIRECTIONS, Direction, Ranking
from pipeline.scores.tiles import Change, Rescored, Tiles, as_tiles, check_finite, cuts

STRIP = 64  # rows of a tile that are compared at once: 1 MB
RUN = 1024  # flags of a row that are summed as the bytes of numbers: 128 each, below 256


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

    Scores are gone through once for all that are made of the same ones, after the tiles with true
    pairs, whose scores are what all others are compared with. The time grows with the largest
    number of true items of a query: one comparison of every score each. Memory holds the true
    pairs and a tile.

    Args:
        wanted: what is to be ranked, by scores of one shape.

    Raises:
        WorkbenchError: NaN or infinity, naming the first.
    """
    found: dict[int, Ranking] = {}
    bases = {id(base): base for base in (_base(one.scores) for one in wanted)}
    for key, base in bases.items():
        chosen = [n for n, one in enumerate(wanted) if id(_base(one.scores)) == key]
        views = _Views([wanted[n].scores for n in chosen])
        sides = [_Side(wanted[n]) for n in chosen]
        parts = list(base.each(_TrueScores(views, [side.pairs for side in sides])))
        for n, side in enumerate(sides):
            found_scores = [part[n] for part in parts if len(part[n])]
            side.learn(np.concatenate(found_scores or [np.empty(0, np.float32)]))
        levels = [(side.way, side.queries, side.levels) for side in sides]
        for part in base.each(_Reached(views, levels)):
            for side, reached in zip(sides, part, strict=True):
                side.add(reached)
        found |= {n: side.ranking() for n, side in zip(chosen, sides, strict=True)}
    return [found[n] for n in range(len(wanted))]


def _base(scores: Tiles) -> Tiles:
    return scores.base if isinstance(scores, Rescored) else scores


class _Views:
    """Which scores each of several queries is ranked by, all made of the same tile."""

    def __init__(self, scores: Sequence[Tiles]) -> None:
        changes = [one.change if isinstance(one, Rescored) else None for one in scores]
        once: dict[int, Change | None] = {id(change): change for change in changes}
        self.changes = list(once.values())
        self.of = [[id(own) for own in self.changes].index(id(change)) for change in changes]

    def tile(
        self, tiles: Tiles, rows: slice, columns: slice, needed: Sequence[bool], check: bool
    ) -> list[torch.Tensor | None]:
        """The tile that each of those needed is ranked by."""
        if not any(needed):
            return [None for _ in needed]
        plain = tiles.tile(rows, columns)
        if check:
            check_finite(plain, rows.start, columns.start)
        made: dict[int, torch.Tensor] = {}
        for view in {view for view, need in zip(self.of, needed, strict=True) if need}:
            change = self.changes[view]
            made[view] = plain if change is None else change(plain, rows, columns)
        return [made.get(view) for view in self.of]


class _Side:
    """The queries of one of `wanted`: their true scores, and how many items reach these."""

    def __init__(self, wanted: Wanted) -> None:
        self.way, self.wanted = wanted.way, wanted
        self.queries, self.query = np.unique(wanted.query, return_inverse=True)
        pair = (wanted.query, wanted.item) if self.way == "i2t" else (wanted.item, wanted.query)
        self.order = np.lexsort(pair[::-1])
        self.pairs = pair[0][self.order], pair[1][self.order]
        self.counts = np.bincount(self.query, minlength=len(self.queries))
        self.parts: list[np.ndarray] = []

    def learn(self, scores: np.ndarray) -> None:
        """Take in the scores of `pairs` as levels (Q, R), falling, -infinity where fewer."""
        self.own = np.empty_like(scores)
        self.own[self.order] = scores
        column = np.arange(len(self.query)) - np.repeat(
            np.cumsum(self.counts) - self.counts, self.counts
        )
        shape = len(self.queries), int(self.counts.max(initial=0))
        levels = np.full(shape, -np.inf, scores.dtype)
        levels[self.query, column] = self.own
        self.true = -np.sort(-levels, axis=1)
        self.levels = np.ascontiguousarray(self.true[:, : self.wanted.depth])

    def add(self, reached: np.ndarray) -> None:
        """Take in what a run of images has found: of its own image queries, or of all captions."""
        if self.way == "t2i" and self.parts:
            self.parts[0] += reached
        else:
            self.parts.append(reached)

    def ranking(self) -> Ranking:
        reached, true = np.concatenate(self.parts), self.true
        ranks: np.ndarray = np.empty(reached.shape)
        for better in range(ranks.shape[1]):
            own = (true >= true[:, better : better + 1]).sum(axis=1)
            ranks[:, better] = 1 + better + reached[:, better] - own
        ranks[np.arange(ranks.shape[1]) >= self.counts[:, None]] = np.inf
        gains = np.isfinite(ranks).astype(np.float64)
        grade = self.wanted.grade
        if grade is not None:
            gains[gains > 0] = grade[np.lexsort((grade, -self.own, self.query))]
        return Ranking(ranks, gains)


@dataclass(frozen=True, eq=False)
class _TrueScores:
    """The scores of true pairs, from the very tiles that all items are counted in."""

    views: _Views
    pairs: Sequence[tuple[np.ndarray, np.ndarray]]

    def __call__(self, tiles: Tiles, rows: slice) -> list[np.ndarray]:
        own = []
        for images, captions in self.pairs:
            run = slice(*np.searchsorted(images, (rows.start, rows.stop)))
            own.append((images[run] - rows.start, captions[run]))
        found = [np.empty(0)] * len(own)
        for columns in tiles.columns():
            inside = [(of >= columns.start) & (of < columns.stop) for _, of in own]
            needed = [bool(chosen.any()) for chosen in inside]
            seen = self.views.tile(tiles, rows, columns, needed, check=False)
            for n, tile in enumerate(seen):
                if tile is not None and needed[n]:
                    image, caption = (of[inside[n]] for of in own[n])
                    values = tile.numpy()[image, caption - columns.start]
                    if not len(found[n]):
                        found[n] = np.empty(len(inside[n]), values.dtype)
                    found[n][inside[n]] = values
        return found


@dataclass(frozen=True, eq=False)
class _Reached:
    """How many items of each query score at least as high as each of its true items.

    A tile is compared in strips that stay in the cache, with one true item after the other, into
    bytes. These are summed as they lie: along a caption's column as bytes, of which STRIP fit, and
    along an image's row eight at a time, as the bytes of 64-bit numbers.
    """

    views: _Views
    levels: Sequence[tuple[Direction, np.ndarray, np.ndarray]]

    def __call__(self, tiles: Tiles, rows: slice) -> list[np.ndarray]:
        flags = np.zeros((STRIP, -(-tiles.block[1] // RUN) * RUN), bool)
        found = [self._zeros(rows, *side) for side in self.levels]
        needed = [bool(count.size) for count in found]
        for columns in tiles.columns():
            seen = self.views.tile(tiles, rows, columns, needed, check=True)
            for n, (way, queries, levels) in enumerate(self.levels):
                tile = seen[n]
                if tile is None or not needed[n]:
                    continue
                lines = rows if way == "i2t" else columns
                run = slice(*np.searchsorted(queries, (lines.start, lines.stop)))
                place = slice(0, run.stop - run.start) if way == "i2t" else run
                asking = queries[run] - lines.start
                _count(tile.numpy(), asking, levels[run], way, flags, found[n][place])
        return found

    def _zeros(
        self, rows: slice, way: Direction, queries: np.ndarray, levels: np.ndarray
    ) -> np.ndarray:
        first, last = np.searchsorted(queries, (rows.start, rows.stop))
        count = last - first if way == "i2t" else len(queries)
        return np.zeros((count, levels.shape[1]), np.int64)


def _count(
    tile: np.ndarray,
    queries: np.ndarray,
    levels: np.ndarray,
    way: Direction,
    buffer: np.ndarray,
    found: np.ndarray,
) -> None:
    """Add to `found` (q, R) how many items of the lines `queries` (q,) reach levels (q, R)."""
    axis = 0 if way == "i2t" else 1
    if len(queries) < tile.shape[axis]:
        tile = tile.take(queries, axis)
    # Where no query of the tile has so many true items there is nothing to compare.
    deepest = int((levels > -np.inf).any(0).sum())
    buffer[:, tile.shape[1] :] = False
    for strip in cuts(len(tile), STRIP):
        flags = buffer[: strip.stop - strip.start]
        out = flags[:, : tile.shape[1]]
        for n in range(deepest):
            if way == "i2t":
                np.greater_equal(tile[strip], levels[strip, n, None], out=out)
                found[strip, n] += _row_sums(flags)
            else:
                np.greater_equal(tile[strip], levels[:, n], out=out)
                found[:, n] += out.view(np.uint8).sum(0, dtype=np.uint8)


def _row_sums(flags: np.ndarray) -> np.ndarray:
    """(n,) how many of each row (n, w) are true; w is a multiple of RUN, whose bytes do not
    overflow."""
    eights = flags.view(np.int64).reshape(len(flags), -1, RUN // 8).sum(-1)
    return eights.view(np.uint8).sum(1, dtype=np.int64)
