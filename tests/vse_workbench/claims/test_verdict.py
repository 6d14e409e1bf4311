"""p values, their correction and the edges of the rule."""

import math

import pytest
from scipy import stats

from vse_workbench.claims.verdict import AHEAD, LEAST_P, edges, open_sides, p_value, verdict_word

SIZED = (4.0, math.inf)
ALIKE = (-2.0, 2.0)
NO_GAIN = (-math.inf, 2.0)


def test_without_queries_it_is_the_p_value_of_a_paired_t_test():
    values = [1.0, 2.5, 0.5, 3.0, -0.5]
    expected = stats.ttest_1samp(values, 0.0).pvalue
    assert p_value(values, 0.0, AHEAD) == pytest.approx(expected, rel=1e-6)
    assert p_value([2.0, 2.0], 0.0, AHEAD) == LEAST_P
    assert p_value([0.0, 0.0], 0.0, AHEAD) == 1


def test_a_claim_with_a_size_has_an_edge_at_it_and_one_at_no_difference():
    assert (edges(AHEAD), edges(SIZED)) == ([0.0], [0.0, 4.0])
    assert (edges(ALIKE), edges(NO_GAIN)) == ([-2.0, 2.0], [2.0])
    values = [3.0, 3.5, 2.5]
    expected = stats.ttest_1samp(values, 4.0).pvalue
    assert p_value(values, 0.0, SIZED) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("low", "high", "p", "region", "word"),
    [
        (1.0, 9.0, 0.05, AHEAD, "holds"),
        (1.0, 9.0, 0.051, AHEAD, "undecided"),
        (-9.0, -1.0, 0.01, AHEAD, "reversed"),
        (0.1, 2.9, 0.01, AHEAD, "no difference"),
        (-2.9, 2.9, 0.9, AHEAD, "no difference"),
        (-2.9, 3.0, 0.9, AHEAD, "undecided"),
        (4.1, 9.0, 0.01, SIZED, "holds"),
        (1.0, 3.9, 0.01, SIZED, "smaller"),
        (1.0, 3.9, 0.06, SIZED, "undecided"),
        (-9.0, -1.0, 0.01, SIZED, "reversed"),
        (-1.0, 2.0, 0.9, SIZED, "no difference"),
        (-1.9, 1.9, 0.01, ALIKE, "holds"),
        (-1.9, 1.9, 0.06, ALIKE, "undecided"),
        (2.1, 4.0, 0.01, ALIKE, "reversed"),
        (-9.0, 1.0, 0.01, NO_GAIN, "holds"),
        (2.1, 4.0, 0.01, NO_GAIN, "reversed"),
    ],
)
def test_words(low, high, p, region, word):
    assert verdict_word((low + high) / 2, low, high, p, region, 3.0) == word


@pytest.mark.parametrize(
    ("word", "mean", "region", "sides"),
    [
        ("holds", 5.0, AHEAD, {1}),
        ("holds", 5.0, SIZED, {1}),
        ("holds", 0.0, ALIKE, {0, 1}),
        ("holds", 0.0, NO_GAIN, {0}),
        ("reversed", -5.0, AHEAD, {0}),
        ("reversed", 5.0, NO_GAIN, {1}),
        ("reversed", 5.0, ALIKE, {1}),
        ("reversed", -5.0, ALIKE, {0}),
        ("smaller", 3.0, SIZED, {0, 1}),
        ("no difference", 0.1, AHEAD, {0, 1}),
        ("undecided", 5.0, AHEAD, set()),
    ],
)
def test_the_side_that_would_change_a_word_if_it_were_better(word, mean, region, sides):
    assert open_sides(word, mean, region) == sides
