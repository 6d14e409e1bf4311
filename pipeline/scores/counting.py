"""How many items score at least as high as a query's true ones, tile by tile.

The part of ranking that takes the time: every score is made once and compared once with each true
item of its query. Tiles with true pairs come first, since all others are compared with what stands
in them; they are counted where they stand, as far as memory allows it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from pipeline.scores.blocks import cuts
from pipeline.scores.ranking import Direction
from pipeline.scores.tiles import Change, Rescored, Tiles, check_finite

STRIP = 128  # rows of a tile that are compared at once: 0.5 MB, and what a byte can count
RUN = 1000  # flags of a row that are summed as the bytes of numbers: 125 each, below 256
HELD = 1 << 23  # scores of tiles with true pairs that are counted as soon as these are known: 32 MB


@dataclass(frozen=True, eq=False)
class Asked:
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


class Views:
    """Which scores each of several queries is ranked by, all made of the same tile."""

    def __init__(self, scores: Sequence[Tiles]) -> None:
        changes = [one.change if isinstance(one, Rescored) else None for one in scores]
        once: dict[int, Change | None] = {id(change): change for change in changes}
        self.changes = list(once.values())
        self.of = [[id(own) for own in self.changes].index(id(change)) for change in changes]

    def tile(
        self, tile: Callable[[], torch.Tensor], rows: slice, columns: slice, needed: Sequence[bool]
    ) -> list[torch.Tensor | None]:
        """What each of those needed is ranked by, made of one tile.

        Args:
            tile: gives the tile of scores as they are.
            rows: its images.
            columns: its captions.
            needed: for each whether it is.

        Returns:
            For each (n, m) scores, None where it is not needed.
        """
        if not any(needed):
            return [None for _ in needed]
        plain = tile()
        check_finite(plain, rows.start, columns.start)
        made: dict[int, torch.Tensor] = {}
        for view in {view for view, need in zip(self.of, needed, strict=True) if need}:
            change = self.changes[view]
            made[view] = plain if change is None else change(plain, rows, columns)
        return [made.get(view) for view in self.of]


def falling(query: np.ndarray, scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The scores of every query's true items, falling.

    Args:
        query: (P,) places of the queries, rising.
        scores: (P,) of their true items.
        counts: (Q,) true items of each query.

    Returns:
        (Q, R), -infinity where a query has fewer than R.
    """
    column = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
    levels = np.full((len(counts), int(counts.max(initial=0))), -np.inf, scores.dtype)
    levels[query, column] = scores
    return -np.sort(-levels, axis=1)


@dataclass(frozen=True, eq=False)
class Seen:
    """What the tiles of a run of images that have true pairs say.

    Attributes:
        scores: for each of those who ask, of its pairs with these images.
        reached: for each, as `Asked.zeros`, of the queries whose true items are all among these.
        columns: where the tiles begin in which they have been counted.
    """

    scores: list[np.ndarray]
    reached: list[np.ndarray]
    columns: frozenset[int]


@dataclass(frozen=True, eq=False)
class OwnTiles:
    """The tiles with true pairs, whose scores are taken from where all items are counted."""

    views: Views
    asked: Sequence[Asked]

    def __call__(self, tiles: Tiles, rows: slice) -> Seen:
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
        return Seen(found, reached, frozenset(columns.start for columns, _ in held))

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
        levels = falling(one.query[run][order], scores[order], counts)[:, : one.depth]
        for columns, seen in held:
            tile, own = seen[n], one.run(rows, columns)
            if tile is not None:
                chosen = one.within(own, rows)
                one.add(tile, rows, columns, chosen, levels[own][chosen], flags, reached)
        return reached


@dataclass(frozen=True, eq=False)
class OtherTiles:
    """How many items of each query score at least as high as each of its true items.

    Attributes:
        views: by which scores.
        asked: the queries.
        levels: (Q, R) for each, scores of their true items.
        counted: for every run of images where the tiles begin that `OwnTiles` has counted.
    """

    views: Views
    asked: Sequence[Asked]
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
