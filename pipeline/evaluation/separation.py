"""How well the scores of true pairs are separated from all others, whatever the ranks.

The indicator S of the dual-path paper (Zheng et al. 2020, eq. 10): P and Q are the distributions of
the similarities of true and of other pairs, S the area that lies under both. 0: perfectly
separable, 1: the same distribution. A ranking only compares items of one query; S compares all.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.groups import Groups, TruePairs, group_codes
from pipeline.scores.ranks import BLOCK, check_finite

BINS = 100  # of width 0.02 for cosines
TOLERANCE = 1e-3  # cosines in float32 may lie a little outside of [-1, 1]


@dataclass(frozen=True)
class Separation:
    """Histograms of scores over equal bins.

    Attributes:
        low: end of the range, -1 for cosines, else the smallest score.
        high: the other end, 1 for cosines, else the largest score.
        true: (bins,) int64 numbers of true pairs.
        others: (bins,) int64 numbers of other pairs.
    """

    low: float
    high: float
    true: np.ndarray
    others: np.ndarray

    @property
    def densities(self) -> tuple[np.ndarray, np.ndarray]:
        """P and Q, (bins,) each, with area 1."""
        width = (self.high - self.low) / len(self.true)
        return self.true / self.true.sum() / width, self.others / self.others.sum() / width

    @property
    def overlap(self) -> float:
        """S, the integral of min(P, Q), 0 to 1; eq. 10 over the bins."""
        width = (self.high - self.low) / len(self.true)
        return float(np.minimum(*self.densities).sum() * width)


def separation(
    scores: np.ndarray,
    image_groups: Groups,
    caption_groups: Groups,
    bins: int = BINS,
    block: int = BLOCK,
) -> Separation:
    """Count the scores of true pairs, those of equal group, and of others.

    Args:
        scores: (N images, M captions).
        image_groups: N groups.
        caption_groups: M groups.
        bins: of either histogram.
        block: number of scores looked at at once.

    Raises:
        WorkbenchError: NaN and infinity, every pair a true one.
    """
    images, captions = group_codes(image_groups, caption_groups)
    pairs = TruePairs(images, captions)
    low, high = _range(scores, block)
    true, every = np.zeros(bins, np.int64), np.zeros(bins, np.int64)
    for rows in _blocks(scores, block):
        every += _counts(scores[rows], low, high, bins)
        true += _counts(scores[pairs.of(rows)], low, high, bins)
    if not (every - true).any():
        raise WorkbenchError(
            "every image belongs to every caption: there are no other pairs to separate from",
            "compare models on a split with at least two images, or persons",
        )
    return Separation(low, high, true, every - true)


def _range(scores: np.ndarray, block: int) -> tuple[float, float]:
    low, high = np.inf, -np.inf
    for rows in _blocks(scores, block):
        check_finite(scores[rows], rows.start, 0)
        low, high = min(low, scores[rows].min()), max(high, scores[rows].max())
    if low >= -1 - TOLERANCE and high <= 1 + TOLERANCE:
        return -1.0, 1.0
    return float(low), float(high if high > low else low + 1)


def _counts(values: np.ndarray, low: float, high: float, bins: int) -> np.ndarray:
    clipped = np.clip(values.astype(np.float64).ravel(), low, high)
    return np.histogram(clipped, bins, (low, high))[0]


def _blocks(scores: np.ndarray, block: int) -> list[slice]:
    height = max(1, block // max(1, scores.shape[1]))
    return [slice(top, top + height) for top in range(0, len(scores), height)]
