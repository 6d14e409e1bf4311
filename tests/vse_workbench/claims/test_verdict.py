"""p values, their correction and the edges of the rule."""

import math

import numpy as np
import pytest
from scipy import stats

from vse_workbench.claims.verdict import AHEAD, LEAST_P, decided, p_value


def test_without_queries_it_is_the_p_value_of_a_paired_t_test():
    values = [1.0, 2.5, 0.5, 3.0, -0.5]
    expected = stats.ttest_1samp(values, 0.0).pvalue
    assert p_value(values, np.zeros(2), AHEAD) == pytest.approx(expected, rel=1e-6)
    assert p_value([2.0, 2.0], np.zeros(2), AHEAD) == LEAST_P
    assert p_value([0.0, 0.0], np.zeros(2), AHEAD) == 1


@pytest.mark.parametrize(
    ("low", "high", "p", "region", "word"),
    [
        (1.0, 9.0, 0.05, AHEAD, "holds"),
        (1.0, 9.0, 0.051, AHEAD, "undecided"),
        (-9.0, -1.0, 0.01, AHEAD, "reversed"),
        (0.1, 2.9, 0.01, AHEAD, "no difference"),
        (-2.9, 2.9, 0.9, AHEAD, "no difference"),
        (-2.9, 3.0, 0.9, AHEAD, "undecided"),
        (-1.9, 1.9, 0.01, (-2.0, 2.0), "holds"),
        (-1.9, 1.9, 0.06, (-2.0, 2.0), "undecided"),
        (2.1, 4.0, 0.01, (-2.0, 2.0), "reversed"),
        (-9.0, 1.0, 0.01, (-math.inf, 2.0), "holds"),
        (2.1, 4.0, 0.01, (-math.inf, 2.0), "reversed"),
    ],
)
def test_words(low, high, p, region, word):
    assert decided((low + high) / 2, low, high, p, region, 3.0) == word
