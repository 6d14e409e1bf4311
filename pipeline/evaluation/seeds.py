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

from pipeline.evaluation.bootstrap import resampled
from pipeline.evaluation.figures import columns_of
from pipeline.evaluation.paired import (
    ROUNDING,
    Difference,
    check_comparable,
    figures_of,
    measured_folds,
    shared_rows,
)
from pipeline.evaluation.rank_file import QueryRanks

SMALLEST = 1e-9  # of p: no normal deviate says more


@dataclass(frozen=True)
class OverSeeds:
    """The mean difference of n seeds and its interval.

    Attributes:
        mean: of the seeds' differences.
        s: their deviation (n - 1).
        q: deviation of the mean by other test images, without the part that s has.
        low: lower end of the interval.
        high: its upper end.
        seeds: n.
    """

    mean: float
    s: float
    q: float
    low: float
    high: float
    seeds: int

    @property
    def p(self) -> float:
        """How often chance makes such a mean: 1 less the confidence whose interval ends at 0."""
        from scipy.optimize import brentq

        if self.s == self.q == 0:
            return 1.0 if self.mean == 0 else 0.0

        def beyond(p: float) -> float:
            return half_width(self.s, self.q, self.seeds, 1 - p) - abs(self.mean)

        if beyond(SMALLEST) <= 0:
            return SMALLEST
        return 1.0 if self.mean == 0 else float(brentq(beyond, SMALLEST, 1.0))


def over_seeds(differences: Sequence[float], q: float, confidence: float = 0.95) -> OverSeeds:
    """The interval over seeds and test images of one figure.

    Args:
        differences: of each of n >= 2 seeds.
        q: deviation that test images alone give the mean of the seeds, as shared_deviation.
        confidence: between 0 and 1.

    Returns:
        The mean of the differences with its interval.
    """
    seeds = len(differences)
    mean = fmean(differences)
    s = stdev(differences)
    half = half_width(s, q, seeds, confidence)
    return OverSeeds(mean, s, q, low=mean - half, high=mean + half, seeds=seeds)


def half_width(s: float, q: float, seeds: int, confidence: float) -> float:
    """Half of an interval over seeds and test images.

    Args:
        s: deviation (n - 1) of the difference between seeds.
        q: its deviation by test images.
        seeds: n, from 2.
        confidence: from 0 to below 1.

    Returns:
        In points of the figure.
    """
    from scipy import stats  # half a second, for several seeds only

    share = (1 + confidence) / 2
    by_seed = stats.t.ppf(share, seeds - 1) * s / math.sqrt(seeds)
    return math.hypot(by_seed, stats.norm.ppf(share) * q)


def shared_deviation(varied: np.ndarray) -> float:
    """The root of the mean covariance of two seeds, 0 where that is negative.

    Args:
        varied: (n, V) differences of n >= 2 seeds, of V draws of test images, the same for all
            seeds, or of V single images.
    """
    seeds = len(varied)
    between = np.cov(varied)
    covariance = (between.sum() - np.trace(between)) / (seeds * (seeds - 1))
    return math.sqrt(max(covariance, 0.0))


def differences_over_seeds(
    a: Sequence[QueryRanks],
    b: Sequence[QueryRanks],
    resamples: int,
    confidence: float,
    seed: int,
) -> list[Difference]:
    """The differences b - a of all figures, means over n seeds, and their intervals.

    Args:
        a: what the queries of n runs of one setting reach, a run for each seed.
        b: the same of another setting, of the same seeds in the same order and the same queries.
        resamples: bootstrap draws of the test images; a draw takes the same images of every run.
        confidence: of the intervals, between 0 and 1.
        seed: of the draws.

    Returns:
        A difference for each figure.

    Raises:
        WorkbenchError: runs of other queries, or another protocol.
    """
    for run in (*a, *b):
        check_comparable(a[0], run)
    metrics = shared_rows([*a, *b])
    drawn_a, drawn_b = (
        np.array([resampled(measured_folds(run), resamples, seed, metrics) for run in runs])
        for runs in (a, b)
    )
    drawn = (drawn_b - drawn_a).round(ROUNDING)  # (n, figures, resamples)
    figures_a, figures_b = (
        np.array([figures_of(run, metrics) for run in runs]).T for runs in (a, b)
    )  # (figures, n)
    differences = []
    for row, column in enumerate(columns_of(metrics)):
        q = shared_deviation(drawn[:, row])
        of_seeds = (figures_b - figures_a)[row].round(ROUNDING).tolist()
        interval = over_seeds(of_seeds, q, confidence)
        difference = Difference(
            figure=column.label,
            a=float(figures_a[row].mean()),
            b=float(figures_b[row].mean()),
            low=interval.low,
            high=interval.high,
            s=interval.s,
            q=interval.q,
        )
        differences.append(difference)
    return differences
