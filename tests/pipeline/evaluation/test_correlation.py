"""Correlations of features against scipy's, and the sample of images."""

import numpy as np
import pytest
from scipy.stats import pearsonr

from pipeline.evaluation.correlation import correlate, sample_rows
from pipeline.runtime.errors import WorkbenchError


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


def test_images_without_a_correlation_are_named():
    features = np.random.default_rng(2).normal(size=(4, 3))
    features[1], features[2, 0] = 7.0, np.nan
    with pytest.raises(WorkbenchError, match=r"of images b, c$"):
        correlate(features, list("abcd"))
    with pytest.raises(WorkbenchError, match="need at least two"):
        correlate(features[:1], ["a"])


def test_the_sample_is_of_different_rows_in_order():
    for seed in range(5):
        rows = sample_rows(40, 30, seed)
        assert rows.tolist() == sorted(set(rows.tolist()) & set(range(40)))
        assert len(rows) == 30
        assert np.array_equal(rows, sample_rows(40, 30, seed))
    assert sample_rows(3, 9, 0).tolist() == [0, 1, 2]
