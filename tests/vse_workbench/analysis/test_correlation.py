"""Correlations of features against scipy's, and the sample of images."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr

from pipeline.runtime.errors import WorkbenchError
from vse_workbench.analysis.correlation import correlate, sample_rows


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_against_scipy(dtype):
    generator = np.random.default_rng(0)
    features = (generator.normal(size=(6, 40)) + 3).astype(dtype)
    found = correlate(features, list("abcdef"))
    pairs = [(a, b) for a in range(6) for b in range(a + 1, 6)]
    expected = [pearsonr(features[a].astype(float), features[b].astype(float))[0] for a, b in pairs]
    np.testing.assert_allclose(found.between, expected, atol=1e-9)
    np.testing.assert_array_equal(np.diag(found.matrix), 1)
    np.testing.assert_array_equal(found.matrix, found.matrix.T)
    assert found.summary() == pytest.approx(
        {
            "mean": np.mean(expected),
            "mean_absolute": np.mean(np.abs(expected)),
            "largest": max(expected),
        }
    )


def test_scale_and_shift_of_an_image_do_not_matter():
    features = np.random.default_rng(1).normal(size=(5, 30))
    changed = features * np.array([[1], [2], [0.1], [9], [3]]) + np.arange(5)[:, None]
    ids = list("abcde")
    np.testing.assert_allclose(correlate(changed, ids).matrix, correlate(features, ids).matrix)


def test_images_without_a_correlation_are_named():
    features = np.random.default_rng(2).normal(size=(4, 3))
    features[1], features[2, 0] = 7.0, np.nan
    with pytest.raises(WorkbenchError, match=r"of images b, c$"):
        correlate(features, list("abcd"))
    with pytest.raises(WorkbenchError, match="need at least two"):
        correlate(features[:1], ["a"])


@settings(max_examples=50)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 9))
def test_the_sample_is_of_different_rows_in_order(total, count, seed):
    rows = sample_rows(total, count, seed)
    assert len(rows) == min(total, count)
    assert np.all(np.diff(rows) > 0)
    assert set(rows) <= set(range(total))
    assert np.array_equal(rows, sample_rows(total, count, seed))
