"""Two settings over several training seeds: how sure is their difference?

Other seeds would move it, and so would other test images. The two variances add up:
half-width^2 = (t s / sqrt(n))^2 + (z q)^2, t the quantile with n - 1 degrees of freedom.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
from scipy import stats

from pipeline.comparison import paired
from pipeline.comparison.paired import Difference
from pipeline.evaluation.bootstrap import resampled
from pipeline.evaluation.figures import columns_of
from pipeline.evaluation.file import QueryRanks


@dataclass(frozen=True)
class OverSeeds:
    """The mean difference of n seeds and its interval. s: deviation of the seeds' differences
    (n - 1); q: deviation of the mean over the seeds when other test images are drawn."""

    mean: float
    s: float
    q: float
    low: float
    high: float


def over_seeds(
    differences: Sequence[float], drawn: np.ndarray, confidence: float = 0.95
) -> OverSeeds:
    """The interval over seeds and queries of one figure.

    differences: of each of n >= 2 seeds; drawn: (resamples,) the mean difference of the seeds when
    the test images are drawn anew."""
    mean, s, q = fmean(differences), stdev(differences), float(np.std(drawn, ddof=1))
    share, n = (1 + confidence) / 2, len(differences)
    half = math.hypot(stats.t.ppf(share, n - 1) * s / math.sqrt(n), stats.norm.ppf(share) * q)
    return OverSeeds(mean, s, q, mean - half, mean + half)


def differences_over_seeds(
    a: Sequence[QueryRanks],
    b: Sequence[QueryRanks],
    resamples: int,
    confidence: float,
    seed: int,
) -> list[Difference]:
    """As `paired_differences`, of means over n seeds. a, b: runs of the same seeds in the same
    order, all of the same queries; a draw takes the same images of every run."""
    for run in (*a, *b):
        paired.check_comparable(a[0], run)
    metrics = paired.shared_rows([*a, *b])
    draw = resamples, seed, metrics
    drawn_b, drawn_a = (
        np.mean([resampled(paired.measured_folds(run), *draw) for run in runs], axis=0)
        for runs in (b, a)
    )
    drawn = (drawn_b - drawn_a).round(paired.ROUNDING)
    one, two = (np.array([paired.figures_of(run, metrics) for run in runs]).T for runs in (a, b))
    differences = []
    for row, column in enumerate(columns_of(metrics)):
        of = over_seeds((two - one)[row].round(paired.ROUNDING).tolist(), drawn[row], confidence)
        means = float(one[row].mean()), float(two[row].mean())
        differences.append(Difference(column.label, *means, of.low, of.high, of.s, of.q))
    return differences
