"""How many items score at least as high as a query's true ones, tile by tile."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

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


def _seen(tiles: Tiles, rows: slice, columns: slice) -> Callable[[Asked], torch.Tensor]:
    """One tile (n, m) as each of those who ask is ranked by it, made when one asks first."""

    @cache
    def changed(change: Change | None) -> torch.Tensor:
        if change is not None:
            return change(changed(None), rows, columns)
        plain = tiles.tile(rows, columns)
        check_finite(plain, rows.start, columns.start)
        return plain

    return lambda asked: changed(asked.change)


def true_scores(asked: Sequence[Asked], tiles: Tiles, rows: slice) -> list[np.ndarray]:
    """For each of `asked`, the scores (p,) of its pairs in a run of images."""
    runs = [slice(*np.searchsorted(side.pairs[0], (rows.start, rows.stop))) for side in asked]
    scores = [np.empty(0)] * len(runs)
    for columns in tiles.columns():
        seen = _seen(tiles, rows, columns)
        for n, (side, run) in enumerate(zip(asked, runs, strict=True)):
            image, caption = (numbers[run] for numbers in side.pairs)
            inside = (caption >= columns.start) & (caption < columns.stop)
            if inside.any():
                tile = seen(side).numpy()
                if not len(scores[n]):
                    scores[n] = np.empty(len(inside), tile.dtype)
                cells = image[inside] - rows.start, caption[inside] - columns.start
                scores[n][inside] = tile[cells]
    return scores


def reached(
    asked: Sequence[Asked], levels: Sequence[np.ndarray], tiles: Tiles, rows: slice
) -> list[np.ndarray]:
    """For each of `asked`, how many items of each query score at least as high as each of its true
    items, in a run of images, as `Asked.zeros`. levels: (Q, R) each, the scores of true items."""
    flags = np.zeros((STRIP, -(-tiles.block[1] // RUN) * RUN), bool)
    counts = [side.zeros(rows) for side in asked]
    for columns in tiles.columns():
        seen = _seen(tiles, rows, columns)
        for side, level, count in zip(asked, levels, counts, strict=True):
            run = side.run(rows, columns)
            if run.stop > run.start:
                is_i2t = side.way == "i2t"
                queries = side.queries[run] - (rows if is_i2t else columns).start
                into = count if is_i2t else count[run]
                _count(seen(side).numpy(), queries, level[run], side.way, flags, into)
    return counts


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
