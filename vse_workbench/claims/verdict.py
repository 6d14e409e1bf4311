"""The one rule that turns differences into a verdict.

A claim says between which two numbers the mean difference of two settings lies: above 0, below a
margin for "no better", between two margins for "alike". The interval over seeds and test images
(pipeline.comparison.seeds) is held against that region; the p value is the level at which it would
just touch the region's boundary, corrected for the number of claims.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq

from pipeline.comparison.seeds import over_seeds

LEVEL = 0.05  # of the intervals, and of false discoveries among the decided claims
AHEAD = (0.0, math.inf)  # region of a claim that the first setting is better
LEAST_P = 1e-12  # smaller ones say no more
# what a claim on a dataset comes to, best known first
WORDS = ("holds", "reversed", "no difference", "undecided", "not converged", "collapsed",
         "premise not met", "not run")  # fmt: skip
POINTS = 0.5  # smallest difference of interest of a figure: 3 of rsum


def p_value(differences: Sequence[float], drawn: np.ndarray, region: tuple[float, float]) -> float:
    """The level at which the interval of the differences of n >= 2 seeds just touches the region's
    nearest boundary. drawn: (resamples,) as over_seeds takes it."""
    mean = over_seeds(differences, drawn).mean
    distance = min(abs(mean - edge) for edge in region)

    def beyond(power: float) -> float:
        interval = over_seeds(differences, drawn, 1 - 10**power)
        return (interval.high - interval.low) / 2 - distance

    least = math.log10(LEAST_P)
    if distance == 0:
        return 1.0
    return LEAST_P if beyond(least) <= 0 else 10 ** float(brentq(beyond, least, 0))


def decided(
    mean: float, low: float, high: float, p: float, region: tuple[float, float], interest: float
) -> str:
    """One of the first four WORDS. p: corrected; interest: the smallest difference of interest, for
    a claim that the first setting is better: a quarter of the published one, and at least POINTS
    for each figure of the measure."""
    if region == AHEAD and -interest < low and high < interest:
        return "no difference"
    if p > LEVEL:
        return "undecided"
    return "holds" if region[0] < mean < region[1] else "reversed"
