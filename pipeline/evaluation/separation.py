"""How well the scores of true pairs are separated from all others, whatever the ranks.

The indicator S of the dual-path paper (Zheng et al. 2020, eq. 10): the area under both P and Q, the
distributions of the scores of true and of other pairs; 0: separable, 1: the same.
"""

from functools import partial

import numpy as np

from pipeline.evaluation.findings import Separation
from pipeline.evaluation.reductions import ends
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.groups import Groups, group_codes, true_pairs
from pipeline.scores.ranks import checked_tiles
from pipeline.scores.tiles import Tiles

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
    pairs = true_pairs(images, captions)
    for of_true, of_all in tiles.each(partial(_histograms, pairs, low, high, bins)):
        true += of_true
        every += of_all
    if not (every - true).any():
        raise WorkbenchError(
            "every image belongs to every caption: there are no other pairs to separate from",
            "compare models on a split with at least two images, or persons",
        )
    return Separation(low, high, true, every - true)


def _range(tiles: Tiles) -> tuple[float, float]:
    if tiles.largest() <= 1 + TOLERANCE:
        return -1.0, 1.0
    low, high = (list(values) for values in zip(*tiles.each(ends), strict=True))
    if min(low) >= -1 - TOLERANCE and max(high) <= 1 + TOLERANCE:
        return -1.0, 1.0
    return min(low), max(high) if max(high) > min(low) else min(low) + 1


def _histograms(
    pairs: tuple[np.ndarray, np.ndarray],
    low: float,
    high: float,
    bins: int,
    tiles: Tiles,
    rows: slice,
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of true pairs and of all pairs of some images, by their scores: (bins,) each."""
    run = slice(*np.searchsorted(pairs[0], (rows.start, rows.stop)))
    image, caption = (numbers[run] for numbers in pairs)
    true, every = (np.zeros(bins, np.int64) for _ in range(2))
    for columns in tiles.columns():
        tile = tiles.tile(rows, columns).numpy()
        inside = (caption >= columns.start) & (caption < columns.stop)
        every += _counts(tile, low, high, bins)
        values = tile[image[inside] - rows.start, caption[inside] - columns.start]
        true += _counts(values, low, high, bins)
    return true, every


def _counts(values: np.ndarray, low: float, high: float, bins: int) -> np.ndarray:
    clipped = np.clip(values.astype(np.float64).ravel(), low, high)
    return np.histogram(clipped, bins, (low, high))[0]
