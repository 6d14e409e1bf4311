"""The one rule that turns differences into a verdict.

A claim says between which two numbers the mean difference of two settings lies: above 0, above a
size that its sentence names, below a margin for "no better", between two margins for "alike". The
interval over seeds and test images (pipeline.evaluation.seeds) is held against that region; the p
value is the level at which it would just touch the region's boundary, corrected for the number of
claims.
"""

import math
from collections.abc import Sequence

from scipy.optimize import brentq

from pipeline.evaluation.seeds import over_seeds

LEVEL = 0.05  # of the intervals, and of false discoveries among the decided claims
AHEAD = (0.0, math.inf)  # region of a claim that the first setting is better
LEAST_P = 1e-12  # smaller ones say no more
NOT_COMPARABLE = "not comparable"
NOT_CONVERGED = "not converged"
COLLAPSED = "collapsed"
PREMISE = "premise not met"
NOT_RUN = "not run"
WITHDRAWN = "withdrawn"
# what a claim on a dataset comes to, best known first: with figures, and without
MEASURED = (
    "holds",
    "reversed",
    "smaller",
    "no difference",
    "undecided",
    NOT_COMPARABLE,
    NOT_CONVERGED,
    COLLAPSED,
)
WORDS = (*MEASURED, PREMISE, NOT_RUN, WITHDRAWN)
POINTS = 0.5  # smallest difference of interest of a figure: 3 of rsum

Region = tuple[float, float]  # open interval of mean differences


def edges(region: Region) -> list[float]:
    """The numbers at which a verdict changes: the ends of the region, and 0 below a size."""
    ends = [end for end in region if math.isfinite(end)]
    return [0.0, *ends] if region[0] > 0 else ends


def p_value(differences: Sequence[float], q: float, region: Region) -> float:
    """The level at which the interval of the differences just touches the nearest edge.

    Args:
        differences: of n >= 2 seeds.
        q: the deviation that over_seeds takes.
        region: what the claim says of their mean.

    Returns:
        Between LEAST_P and 1.
    """
    mean = over_seeds(differences, q).mean
    distance = min(abs(mean - edge) for edge in edges(region))

    def beyond(power: float) -> float:
        interval = over_seeds(differences, q, 1 - 10**power)
        return (interval.high - interval.low) / 2 - distance

    least = math.log10(LEAST_P)
    if distance == 0:
        return 1.0
    return LEAST_P if beyond(least) <= 0 else 10 ** float(brentq(beyond, least, 0))


def verdict_word(
    mean: float, low: float, high: float, p: float, region: Region, interest: float
) -> str:
    """One of the first five words.

    Args:
        mean: of the differences.
        low: lower end of their interval.
        high: upper end of it.
        p: corrected for the number of claims.
        region: what the claim says of the mean.
        interest: the smallest difference of interest, for a claim that the first setting is better.

    Returns:
        The word.
    """
    if region[0] >= 0 and -interest < low and high < interest:
        return "no difference"
    if p > LEVEL:
        return "undecided"
    if region[0] < mean < region[1]:
        return "holds"
    return "smaller" if 0 < mean < region[0] else "reversed"


def open_sides(word: str, mean: float, region: Region) -> set[int]:
    """The sides of which a better setting might change a word: a better first one raises the
    difference, a better second one lowers it.

    Args:
        word: of `verdict_word`.
        mean: of the differences.
        region: what the claim says of the mean.

    Returns:
        0 for the first, 1 for the second setting.
    """
    if word == "holds":
        return {side for side, end in ((1, region[0]), (0, region[1])) if math.isfinite(end)}
    if word == "reversed":
        return {1} if mean >= region[1] else {0}
    return {0, 1} if word in ("smaller", "no difference") else set()
