"""Exact ranks of true items, both directions, in bounded memory.

Public code counts only items scored strictly above the true one (a collapsed model is then
perfect), takes the true score from another product than the rest (an item then outranks itself)
or lets NaN through. Here ties count against the model, true items never outrank each other in the
rank of the best, and anything that is not a finite number is an error.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.groups import Groups, TruePairs, group_codes
from pipeline.scores.positives import Positives
from pipeline.scores.ranking import DIRECTIONS, Direction, Ranking
from pipeline.scores.tiles import Change, Rescored, Tiles, as_tiles, check_finite, cuts

STRIP = 128  # rows of a tile that are compared at once: 0.5 MB, and what a byte can count
RUN = 1000  # flags of a row that are summed as the bytes of numbers: 125 each, below 256
HELD = 1 << 23  # scores of tiles with true pairs that are counted as soon as these are known: 32 MB


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
        views = _Views([wanted[n].scores for n in chosen])
        sides = [_Side(wanted[n]) for n in chosen]
        seen = list(base.each(_OwnTiles(views, [side.asked for side in sides])))
        for n, side in enumerate(sides):
            side.learn([part.scores[n] for part in seen], [part.reached[n] for part in seen])
        counted = {rows.start: part.columns for rows, part in zip(base.rows(), seen, strict=True)}
        others = _OtherTiles(views, [side.asked for side in sides],
                             [side.levels for side in sides], counted)  # fmt: skip
        for part in base.each(others):
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
        self, tile: Callable[[], torch.Tensor], rows: slice, columns: slice, needed: Sequence[bool]
    ) -> list[torch.Tensor | None]:
        """The tile that each of those needed is ranked by, made of what `tile` gives."""
        if not any(needed):
            return [None for _ in needed]
        plain = tile()
        check_finite(plain, rows.start, columns.start)
        made: dict[int, torch.Tensor] = {}
        for view in {view for view, need in zip(self.of, needed, strict=True) if need}:
            change = self.changes[view]
            made[view] = plain if change is None else change(plain, rows, columns)
        return [made.get(view) for view in self.of]


@dataclass(frozen=True, eq=False)
class _Asked:
    """Queries of one direction and their true pairs.

    Attributes:
        way: whether images or captions are the queries.
        queries: (Q,) their numbers, rising.
        counts: (Q,) how many true items each has.
        span: (Q,) each, the first and the last image of each query's pairs.
        pairs: (P,) each, image and caption of the pairs, by image and then caption.
        query: (P,) place of each pair's query among `queries`.
        depth: as in `Wanted`.
    """

    way: Direction
    queries: np.ndarray
    counts: np.ndarray
    span: tuple[np.ndarray, np.ndarray]
    pairs: tuple[np.ndarray, np.ndarray]
    query: np.ndarray
    depth: int | None

    @property
    def width(self) -> int:
        """Of how many true items the ranks are wanted."""
        return len(range(int(self.counts.max(initial=0)))[: self.depth])

    def run(self, rows: slice, columns: slice) -> slice:
        """The queries among some images or captions."""
        lines = rows if self.way == "i2t" else columns
        return slice(*np.searchsorted(self.queries, (lines.start, lines.stop)))

    def within(self, run: slice, rows: slice) -> np.ndarray:
        """Which of the queries in `run` have all their true pairs with images in `rows`."""
        return (self.span[0][run] >= rows.start) & (self.span[1][run] < rows.stop)

    def zeros(self, rows: slice) -> np.ndarray:
        """Counts that a run of images adds to: of its own image queries, or of all captions."""
        count = len(self.queries)
        if self.way == "i2t":
            run = self.run(rows, rows)
            count = run.stop - run.start
        return np.zeros((count, self.width), np.int64)

    def add(
        self,
        tile: torch.Tensor,
        rows: slice,
        columns: slice,
        chosen: np.ndarray,
        levels: np.ndarray,
        flags: np.ndarray,
        found: np.ndarray,
    ) -> None:
        """Add to `found`, as `zeros` made it, what reaches the levels of the chosen queries.

        Args:
            tile: (n, m) scores.
            rows: its images.
            columns: its captions.
            chosen: booleans, which of the queries in `run`.
            levels: (q, R) theirs.
            flags: (STRIP, w) to work in.
            found: counts.
        """
        run = self.run(rows, columns)
        start = rows.start if self.way == "i2t" else columns.start
        place = slice(0, run.stop - run.start) if self.way == "i2t" else run
        asking = self.queries[run] - start
        if chosen.all():
            _count(tile.numpy(), asking, levels, self.way, flags, found[place])
        elif chosen.any():
            part = np.zeros((len(levels), found.shape[1]), np.int64)
            _count(tile.numpy(), asking[chosen], levels, self.way, flags, part)
            found[place][chosen] += part


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
        self.asked = _Asked(way, queries, counts, (ends[0], ends[1]), pairs, query, wanted.depth)
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
        self.true = _falling(self.query, self.own, self.asked.counts)
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


def _falling(query: np.ndarray, scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(Q, R) the scores of every query's true items, falling, -infinity where there are fewer.

    query: (P,) rising places of queries, of which each has counts (Q,).
    """
    column = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
    levels = np.full((len(counts), int(counts.max(initial=0))), -np.inf, scores.dtype)
    levels[query, column] = scores
    return -np.sort(-levels, axis=1)


@dataclass(frozen=True, eq=False)
class _Seen:
    """What the tiles of a run of images that have true pairs say.

    Attributes:
        scores: for each of those who ask, of its pairs with these images.
        reached: for each, as `_Asked.zeros`, of the queries whose true items are all among these.
        columns: where the tiles begin in which they have been counted.
    """

    scores: list[np.ndarray]
    reached: list[np.ndarray]
    columns: frozenset[int]


@dataclass(frozen=True, eq=False)
class _OwnTiles:
    """The tiles with true pairs, whose scores are taken from where all items are counted."""

    views: _Views
    asked: Sequence[_Asked]

    def __call__(self, tiles: Tiles, rows: slice) -> _Seen:
        runs = [slice(*np.searchsorted(one.pairs[0], (rows.start, rows.stop)))
                for one in self.asked]  # fmt: skip
        found = [np.empty(0)] * len(runs)
        held: list[tuple[slice, list[torch.Tensor | None]]] = []
        size = 0
        for columns in tiles.columns():
            inside = [
                (one.pairs[1][run] >= columns.start) & (one.pairs[1][run] < columns.stop)
                for one, run in zip(self.asked, runs, strict=True)
            ]
            if not any(chosen.any() for chosen in inside):
                continue
            size += (rows.stop - rows.start) * (columns.stop - columns.start)
            seen = self._tile(tiles, rows, columns, [bool(some.any()) for some in inside], size)
            for n, (one, run, chosen) in enumerate(zip(self.asked, runs, inside, strict=True)):
                tile = seen[n]
                if tile is not None and chosen.any():
                    image, caption = (numbers[run][chosen] for numbers in one.pairs)
                    values = tile.numpy()[image - rows.start, caption - columns.start]
                    if not len(found[n]):
                        found[n] = np.empty(len(chosen), values.dtype)
                    found[n][chosen] = values
            if size <= HELD:
                held.append((columns, seen))
        reached = [
            self._reached(n, rows, run, scores, held)
            for n, (run, scores) in enumerate(zip(runs, found, strict=True))
        ]
        return _Seen(found, reached, frozenset(columns.start for columns, _ in held))

    def _tile(
        self, tiles: Tiles, rows: slice, columns: slice, needed: list[bool], size: int
    ) -> list[torch.Tensor | None]:
        """Of all that ask where the tile will be counted at once, else of those with pairs."""
        if size > HELD:
            return self.views.tile(partial(tiles.held, rows, columns, True), rows, columns, needed)
        again = any(not one.within(one.run(rows, columns), rows).all() for one in self.asked)
        every = [bool(len(one.queries)) for one in self.asked]
        return self.views.tile(partial(tiles.held, rows, columns, again), rows, columns, every)

    def _reached(
        self,
        n: int,
        rows: slice,
        run: slice,
        scores: np.ndarray,
        held: Sequence[tuple[slice, list[torch.Tensor | None]]],
    ) -> np.ndarray:
        one = self.asked[n]
        reached = one.zeros(rows)
        if not held or not reached.size:
            return reached
        flags = _flags(max(columns.stop - columns.start for columns, _ in held))
        order = np.argsort(one.query[run], kind="stable")
        counts = np.bincount(one.query[run], minlength=len(one.queries))
        levels = _falling(one.query[run][order], scores[order], counts)[:, : one.depth]
        for columns, seen in held:
            tile, own = seen[n], one.run(rows, columns)
            if tile is not None:
                chosen = one.within(own, rows)
                one.add(tile, rows, columns, chosen, levels[own][chosen], flags, reached)
        return reached


@dataclass(frozen=True, eq=False)
class _OtherTiles:
    """How many items of each query score at least as high as each of its true items.

    Attributes:
        views: by which scores.
        asked: the queries.
        levels: (Q, R) for each, scores of their true items.
        counted: for every run of images where the tiles begin that `_OwnTiles` has counted.
    """

    views: _Views
    asked: Sequence[_Asked]
    levels: Sequence[np.ndarray]
    counted: dict[int, frozenset[int]]

    def __call__(self, tiles: Tiles, rows: slice) -> list[np.ndarray]:
        flags = _flags(tiles.block[1])
        found = [one.zeros(rows) for one in self.asked]
        for columns in tiles.columns():
            own = [one.run(rows, columns) for one in self.asked]
            left = [np.ones(run.stop - run.start, bool) for run in own]
            if columns.start in self.counted[rows.start]:
                left = [~one.within(run, rows) for one, run in zip(self.asked, own, strict=True)]
            needed = [bool(some.any()) for some in left]
            tile_of = partial(tiles.tile, rows, columns)
            seen = self.views.tile(tile_of, rows, columns, needed)
            for one, run, chosen, levels, tile, into in zip(
                self.asked, own, left, self.levels, seen, found, strict=True
            ):
                if tile is not None and chosen.any():
                    one.add(tile, rows, columns, chosen, levels[run][chosen], flags, into)
        return found


def _flags(width: int) -> np.ndarray:
    """Bytes for the comparisons of a strip of a tile with so many captions."""
    return np.zeros((STRIP, -(-width // RUN) * RUN), bool)


def _count(
    tile: np.ndarray,
    queries: np.ndarray,
    levels: np.ndarray,
    way: Direction,
    buffer: np.ndarray,
    found: np.ndarray,
) -> None:
    """Add to `found` (q, R) how many items of the lines `queries` (q,) reach levels (q, R).

    A tile is compared in strips that stay in the cache, with one true item after the other, into
    bytes. These are summed as they lie: along a caption's column as bytes, of which STRIP fit, and
    along an image's row eight at a time, as the bytes of 64-bit numbers.
    """
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
