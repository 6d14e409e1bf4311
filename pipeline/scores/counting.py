"""How many items score at least as high as a query's true ones, tile by tile."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pipeline.scores.blocks import cuts
from pipeline.scores.ranking import Direction
from pipeline.scores.tiles import Change, Tiles, check_finite

STRIP = 128  # rows of a tile that are compared at once: 0.5 MB, and what a byte can count
RUN = 1000  # flags of a row that are summed as the bytes of numbers: 125 each, below 256


@dataclass(frozen=True, eq=False)
class Asked:
    """Queries of one direction and their true pairs."""

    way: Direction
    change: Change | None  # makes a criterion's scores of a tile of the model's
    queries: np.ndarray  # (Q,) their numbers, ascending
    counts: np.ndarray  # (Q,) how many true items each has
    pairs: tuple[np.ndarray, np.ndarray]  # (P,) each, image and caption, by image and then caption
    depth: int | None  # of how many true items the ranks are wanted, None for all

    def run(self, rows: slice, columns: slice) -> slice:
        lines = rows if self.way == "i2t" else columns
        return slice(*np.searchsorted(self.queries, (lines.start, lines.stop)))

    def zeros(self, rows: slice) -> np.ndarray:
        """Counts (q, R) that a run of images adds to: of its image queries, or of all captions."""
        depth = len(range(int(self.counts.max(initial=0)))[: self.depth])
        run = self.run(rows, rows) if self.way == "i2t" else slice(0, len(self.queries))
        return np.zeros((run.stop - run.start, depth), np.int64)


def _seen(
    asked: Sequence[Asked], needed: Sequence[bool], tiles: Tiles, rows: slice, columns: slice
) -> list[torch.Tensor | None]:
    """One tile (n, m) as each of `asked` is ranked by it, made if it is needed at all."""
    if not any(needed):
        return [None for _ in asked]
    plain = tiles.tile(rows, columns)
    check_finite(plain, rows.start, columns.start)
    by_change: dict[int, torch.Tensor] = {}
    for one, need in zip(asked, needed, strict=True):
        if need and id(one.change) not in by_change:
            changed = plain if one.change is None else one.change(plain, rows, columns)
            by_change[id(one.change)] = changed
    return [by_change.get(id(one.change)) if need else None
            for one, need in zip(asked, needed, strict=True)]  # fmt: skip


@dataclass(frozen=True, eq=False)
class TrueScores:
    """Looks up, for each of `asked`, the scores of its pairs in a run of images."""

    asked: Sequence[Asked]

    def __call__(self, tiles: Tiles, rows: slice) -> list[np.ndarray]:
        runs = [slice(*np.searchsorted(one.pairs[0], (rows.start, rows.stop)))
                for one in self.asked]  # fmt: skip
        scores = [np.empty(0)] * len(runs)
        for columns in tiles.columns():
            inside = [
                (one.pairs[1][run] >= columns.start) & (one.pairs[1][run] < columns.stop)
                for one, run in zip(self.asked, runs, strict=True)
            ]
            needed = [bool(chosen.any()) for chosen in inside]
            seen = _seen(self.asked, needed, tiles, rows, columns)
            for n, (one, run, chosen) in enumerate(zip(self.asked, runs, inside, strict=True)):
                tile = seen[n]
                if tile is not None:
                    image, caption = (numbers[run][chosen] for numbers in one.pairs)
                    values = tile.numpy()[image - rows.start, caption - columns.start]
                    if not len(scores[n]):
                        scores[n] = np.empty(len(chosen), values.dtype)
                    scores[n][chosen] = values
        return scores


@dataclass(frozen=True, eq=False)
class Reached:
    """Counts how many items of each query score at least as high as each of its true items.
    levels: for each of `asked` (Q, R), the scores of their true items."""

    asked: Sequence[Asked]
    levels: Sequence[np.ndarray]

    def __call__(self, tiles: Tiles, rows: slice) -> list[np.ndarray]:
        flags = np.zeros((STRIP, -(-tiles.block[1] // RUN) * RUN), bool)
        counts = [one.zeros(rows) for one in self.asked]
        for columns in tiles.columns():
            runs = [one.run(rows, columns) for one in self.asked]
            needed = [run.stop > run.start for run in runs]
            seen = _seen(self.asked, needed, tiles, rows, columns)
            for one, run, levels, tile, count in zip(
                self.asked, runs, self.levels, seen, counts, strict=True
            ):
                if tile is not None:
                    start = rows.start if one.way == "i2t" else columns.start
                    into = count if one.way == "i2t" else count[run]
                    queries = one.queries[run] - start
                    _count(tile.numpy(), queries, levels[run], one.way, flags, into)
        return counts


def descending(query: np.ndarray, scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(Q, R) the scores of every query's true items, -infinity where it has fewer than R. query:
    (P,) places of the queries, ascending; scores: (P,) of their true items; counts: (Q,)."""
    column = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
    levels = np.full((len(counts), int(counts.max(initial=0))), -np.inf, scores.dtype)
    levels[query, column] = scores
    return -np.sort(-levels, axis=1)


def _count(
    tile: np.ndarray,
    queries: np.ndarray,
    levels: np.ndarray,
    way: Direction,
    buffer: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Add to `counts` (q, R) how many items of the lines `queries` (q,) reach levels (q, R). Strips
    that stay in the cache are compared into bytes, and these summed as they lie: along a column as
    bytes, of which STRIP fit, along a row eight at a time, as the bytes of 64-bit numbers."""
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
                counts[strip, n] += _row_sums(flags)
            else:
                np.greater_equal(tile[strip], levels[:, n], out=out)
                counts[:, n] += out.view(np.uint8).sum(0, dtype=np.uint8)


def _row_sums(flags: np.ndarray) -> np.ndarray:
    """(n,) sums of rows of flags (n, w); w is a multiple of RUN, whose bytes do not overflow."""
    eights = flags.view(np.int64).reshape(len(flags), -1, RUN // 8).sum(-1)
    return eights.view(np.uint8).sum(1, dtype=np.int64)
