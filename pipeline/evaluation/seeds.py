"""Two settings over several training seeds: how sure is their difference?

Other seeds would move it, and so would other test images. The two variances add up:
half-width^2 = (t s / sqrt(n))^2 + (z q)^2, t the quantile with n - 1 degrees of freedom.

Part of what test images do is particular to a seed: an image that one training ranks well and the
next one does not. The deviation s between seeds has that part already, so q leaves it out: q^2 is
the covariance of two seeds' differences when the same other images are drawn for both.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
from scipy import stats

from pipeline.evaluation import paired
from pipeline.evaluation.bootstrap import resampled
from pipeline.evaluation.figures import columns_of
from pipeline.evaluation.paired import Difference
from pipeline.evaluation.rank_file import QueryRanks


@dataclass(frozen=True)
class OverSeeds:
    """The mean difference of n seeds and its interval. s: deviation of the seeds' differences
    (n - 1); q: deviation of the mean by other test images, without the part that s has."""

    mean: float
    s: float
    q: float
    low: float
    high: float


def over_seeds(differences: Sequence[float], q: float, confidence: float = 0.95) -> OverSeeds:
    """The interval over seeds and test images of one figure.

    Args:
        differences: of each of n >= 2 seeds.
        q: deviation that test images alone give the mean of the seeds, as shared_deviation.
        confidence: between 0 and 1.

    Returns:
        The mean of the differences with its interval.
    """
    mean, s = fmean(differences), stdev(differences)
    share, n = (1 + confidence) / 2, len(differences)
    half = math.hypot(stats.t.ppf(share, n - 1) * s / math.sqrt(n), stats.norm.ppf(share) * q)
    return OverSeeds(mean, s, q, mean - half, mean + half)


def shared_deviation(varied: np.ndarray) -> float:
    """The root of the mean covariance of two seeds, 0 where that is negative.

    varied: (n, V) differences of n >= 2 seeds, of V draws of test images, the same for all seeds,
    or of V single images."""
    n = len(varied)
    between = np.cov(varied)
    covariance = (between.sum() - np.trace(between)) / (n * (n - 1))
    return math.sqrt(max(covariance, 0.0))


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
        np.array([resampled(paired.measured_folds(run), *draw) for run in runs]) for runs in (b, a)
    )
    drawn = (drawn_b - drawn_a).round(paired.ROUNDING)
    one, two = (np.array([paired.figures_of(run, metrics) for run in runs]).T for runs in (a, b))
    differences = []
    for row, column in enumerate(columns_of(metrics)):
        q = shared_deviation(drawn[:, row])
        of = over_seeds((two - one)[row].round(paired.ROUNDING).tolist(), q, confidence)
        means = float(one[row].mean()), float(two[row].mean())
        differences.append(Difference(column.label, *means, of.low, of.high, of.s, of.q))
    return differences
