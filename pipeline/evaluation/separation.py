"""How well the scores of true pairs are separated from all others, whatever the ranks.

The indicator S of the dual-path paper (Zheng et al. 2020, eq. 10): the area under both P and Q, the
distributions of the scores of true and of other pairs; 0: separable, 1: the same.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.evaluation.findings import Separation
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.groups import Groups, TruePairs, group_codes
from pipeline.scores.ranks import checked_tiles
from pipeline.scores.tiles import Tiles, check_finite

BINS = 100  # of width 0.02 for cosines
TOLERANCE = 1e-3  # cosines in float32 may lie a little outside of [-1, 1]


def separation(
    scores: np.ndarray | Tiles, image_groups: Groups, caption_groups: Groups, bins: int = BINS
) -> Separation:
    """Count the scores (N, M) of true pairs, those of equal groups (N,) and (M,), and of others."""
    images, captions = group_codes(image_groups, caption_groups)
    tiles = checked_tiles(scores, len(images), len(captions))
    low, high = _range(tiles)
    true, every = np.zeros(bins, np.int64), np.zeros(bins, np.int64)
    pairs = TruePairs(images, captions)
    for own, counted in tiles.each(_Histogram(pairs, low, high, bins)):
        true += own
        every += counted
    if not (every - true).any():
        raise WorkbenchError(
            "every image belongs to every caption: there are no other pairs to separate from",
            "compare models on a split with at least two images, or persons",
        )
    return Separation(low, high, true, every - true)


def _range(tiles: Tiles) -> tuple[float, float]:
    if tiles.largest() <= 1 + TOLERANCE:
        return -1.0, 1.0
    low, high = (list(ends) for ends in zip(*tiles.each(_ends), strict=True))
    if min(low) >= -1 - TOLERANCE and max(high) <= 1 + TOLERANCE:
        return -1.0, 1.0
    return min(low), max(high) if max(high) > min(low) else min(low) + 1


def _ends(tiles: Tiles, rows: slice) -> tuple[float, float]:
    low, high = np.inf, -np.inf
    for columns in tiles.columns():
        tile = tiles.tile(rows, columns)
        check_finite(tile, rows.start, columns.start)
        low, high = min(low, float(tile.min())), max(high, float(tile.max()))
    return low, high


@dataclass(frozen=True, eq=False)
class _Histogram:
    """Numbers of true pairs and of all pairs of some images, by their scores: (bins,) each."""

    pairs: TruePairs
    low: float
    high: float
    bins: int

    def __call__(self, tiles: Tiles, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        image, caption = self.pairs.of(rows)
        true, every = (np.zeros(self.bins, np.int64) for _ in range(2))
        for columns in tiles.columns():
            tile = tiles.tile(rows, columns).numpy()
            own = (caption >= columns.start) & (caption < columns.stop)
            every += _counts(tile, self.low, self.high, self.bins)
            values = tile[image[own] - rows.start, caption[own] - columns.start]
            true += _counts(values, self.low, self.high, self.bins)
        return true, every


def _counts(values: np.ndarray, low: float, high: float, bins: int) -> np.ndarray:
    clipped = np.clip(values.astype(np.float64).ravel(), low, high)
    return np.histogram(clipped, bins, (low, high))[0]
