"""The one rule that turns paired differences into a verdict.

A claim says between which two numbers the mean difference of two settings lies: above 0, below a
margin for "no better", between two margins for "alike". A 95 % t interval over seeds is held
against that region.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy import stats

CONFIDENCE = 0.95
AHEAD = (0.0, math.inf)  # region of a claim that the first setting is better
MOST_SEEDS = 10_000  # more than that decide nothing a person could run


@dataclass(frozen=True)
class Spread:
    """Of n paired differences; low and high are mean -+ t(n - 1, 0.975) deviation / sqrt(n)."""

    n: int
    mean: float
    deviation: float | None = None  # of the sample (n - 1); None of one pair, as low and high
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Verdict:
    word: str  # "holds", "reversed" or "undecided"
    size: str = ""  # "smaller than published" and so on, empty where that is not known
    seeds: int | None = None  # would decide if mean and deviation stayed; None: no sensible number


def spread(differences: Sequence[float]) -> Spread:
    """Mean and 95 % t interval of paired differences."""
    n, mean = len(differences), fmean(differences)
    if n == 1:
        return Spread(n, mean)
    deviation = stdev(differences)
    half = _half_width(n, deviation)
    return Spread(n, mean, deviation, mean - half, mean + half)


def judge(found: Spread, published: float | None, region: tuple[float, float]) -> Verdict:
    """The verdict on a claim; `published` is None where the paper gives no figures."""
    if found.low is None or found.high is None or found.deviation is None:
        return Verdict("undecided")
    (bottom, top), size = region, ""
    if region == AHEAD and published is not None:
        size = "as large as published"
        if published > found.high:
            size = "smaller than published"
        elif published < found.low:
            size = "larger than published"
    if bottom < found.low and found.high < top:
        return Verdict("holds", size)
    if found.high < bottom or found.low > top:
        return Verdict("reversed")
    # An interval that is undecided and holds the published effect says nothing about it.
    told = size if size != "as large as published" else ""
    nearest = min(abs(found.mean - bottom), abs(found.mean - top))
    return Verdict("undecided", told, seeds_needed(nearest, found.deviation))


def seeds_needed(distance: float, deviation: float) -> int | None:
    """The least pairs whose interval is narrower than `distance` to each side, None for no such."""
    pairs = range(2, MOST_SEEDS + 1)  # one pair has no interval
    at = bisect_left(pairs, True, key=lambda n: _half_width(n, deviation) < distance)
    return pairs[at] if at < len(pairs) else None


def _half_width(n: int, deviation: float) -> float:
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1))
    return quantile * deviation / math.sqrt(n)
