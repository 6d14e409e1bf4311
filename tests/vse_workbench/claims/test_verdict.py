"""Intervals against scipy's, and the edges of the rule."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from vse_workbench.claims.verdict import AHEAD, MOST_SEEDS, Spread, judge, seeds_needed, spread

DIFFERENCES = st.lists(st.floats(-100, 100), min_size=2, max_size=12)


@given(DIFFERENCES)
def test_the_interval_is_that_of_a_paired_t_test(values):
    assume(np.std(values) > 1e-6)
    found = spread(values)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-9)
    assert found.mean == pytest.approx(np.mean(values), abs=1e-9)


def between(low, high):
    """Differences with this interval, as far as the rule looks at them."""
    return Spread(3, (low + high) / 2, 1.0, low, high)


@pytest.mark.parametrize(
    ("low", "high", "published", "word", "size"),
    [
        (1.0, 3.0, 3.0, "holds", "as large as published"),
        (1.0, 3.0, 3.1, "holds", "smaller than published"),
        (1.0, 3.0, 0.9, "holds", "larger than published"),
        (1.0, 3.0, None, "holds", ""),
        (0.0, 3.0, 2.0, "undecided", ""),
        (-1.0, 3.0, 4.0, "undecided", "smaller than published"),
        (-3.0, -0.1, 2.0, "reversed", ""),
    ],
)
def test_who_is_ahead(low, high, published, word, size):
    found = judge(between(low, high), published, AHEAD)
    assert (found.word, found.size) == (word, size)


@pytest.mark.parametrize(
    ("low", "high", "alike", "no_gain"),
    [
        (-1.9, 1.9, "holds", "holds"),
        (-2.0, 1.9, "undecided", "holds"),
        (-9.0, 1.0, "undecided", "holds"),
        (-9.0, -2.1, "reversed", "holds"),
        (1.0, 2.0, "undecided", "undecided"),
        (2.1, 4.0, "reversed", "reversed"),
    ],
)
def test_margins(low, high, alike, no_gain):
    assert judge(between(low, high), 0.1, (-2.0, 2.0)).word == alike
    assert judge(between(low, high), 0.1, (-math.inf, 2.0)).word == no_gain
    assert judge(between(low, high), 0.1, (-2.0, 2.0)).size == ""


def test_equal_differences_decide_unless_they_are_zero():
    assert judge(spread([2.0, 2.0]), 2.0, AHEAD).word == "holds"
    assert judge(spread([-2.0, -2.0]), 2.0, AHEAD).word == "reversed"
    assert judge(spread([0.0, 0.0]), 2.0, AHEAD).word == "undecided"
    assert judge(spread([0.0, 0.0]), 2.0, AHEAD).seeds is None


@given(st.floats(0.1, 50), st.floats(0.1, 50))
def test_so_many_seeds_decide_and_one_less_does_not(distance, deviation):
    def half(n):
        return stats.t.interval(0.95, n - 1, scale=deviation / math.sqrt(n))[1]

    n = seeds_needed(distance, deviation)
    if n is None:
        assert half(MOST_SEEDS) >= distance
    else:
        assert half(n) < distance
        assert n == 2 or half(n - 1) >= distance


def test_seeds_are_told_for_the_nearest_edge():
    found = judge(Spread(3, 1.5, 1.0, -0.98, 3.98), None, (-2.0, 2.0))
    assert found.seeds == seeds_needed(0.5, 1.0)
    assert judge(between(-1.0, 3.0), 2.0, AHEAD).seeds == seeds_needed(1.0, 1.0)
