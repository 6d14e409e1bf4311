"""Streamed PCA against scikit-learn's, which holds all rows at once."""

import itertools

import numpy as np
import pytest
from sklearn.decomposition import PCA

from pipeline.features.statistics import covariance
from pipeline.features.statistics.projection import fit_projection
from pipeline.runtime.errors import WorkbenchError


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks and panels of a few rows and columns, so that tests cross their edges."""
    monkeypatch.setattr(covariance, "CHUNK", 64)
    monkeypatch.setattr(covariance, "PANEL", 5)


def sample(rows, width, offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((width, width)))[0]
    spread = 0.8 ** np.arange(width) * 5
    values = rng.standard_normal((rows, width)) * spread @ rotation
    return (values + offset * rng.standard_normal(width)).astype(np.float32)


def cut(values, *sizes):
    sizes, start = itertools.cycle(sizes), 0
    while start < len(values):
        stop = start + next(sizes)
        yield values[start:stop]
        start = stop


@pytest.mark.parametrize(
    ("rows", "width", "components"), [(300, 17, 6), (300, 17, 17), (12, 30, 11)]
)
def test_agrees_with_sklearn(rows, width, components):
    values = sample(rows, width)
    expected = PCA(components, svd_solver="full").fit(values.astype(np.float64))
    fitted = fit_projection(cut(values, 70), components, rows)
    np.testing.assert_allclose(fitted.mean, expected.mean_, atol=1e-6)
    np.testing.assert_allclose(fitted.variances, expected.explained_variance_, rtol=2e-5, atol=1e-6)
    ratio = fitted.variances / fitted.total
    np.testing.assert_allclose(ratio, expected.explained_variance_ratio_, rtol=2e-5, atol=1e-7)
    assert fitted.explained == pytest.approx(expected.explained_variance_ratio_.sum(), rel=1e-6)
    assert {fitted.mean.dtype, fitted.components.dtype} == {np.dtype(np.float32)}
    largest = np.abs(fitted.components).argmax(axis=1)
    assert (fitted.components[np.arange(components), largest] > 0).all()
    turned = np.sign((fitted.components * expected.components_).sum(axis=1))[:, None]
    np.testing.assert_allclose(fitted.components * turned, expected.components_, atol=2e-4)
    found = fitted.apply(values) * turned.T
    np.testing.assert_allclose(found, expected.transform(values.astype(np.float64)), atol=2e-3)


def test_a_large_mean_costs_no_precision():
    """Squares of the offset are a million times the variance: float32 would have nothing left."""
    values = sample(500, 12, offset=1e3)
    expected = PCA(6, svd_solver="full").fit(values.astype(np.float64))
    fitted = fit_projection(cut(values, 100), 6, 500)
    np.testing.assert_allclose(fitted.mean, expected.mean_, rtol=1e-6)
    np.testing.assert_allclose(fitted.variances, expected.explained_variance_, rtol=1e-5)


def test_many_chunks_are_summed_without_drift():
    """Equal squares that float32 cannot add: 0.1 ** 2, 100,000 times, in chunks of 64."""
    values = np.full((100_000, 2), 0.1, dtype=np.float32)
    values[::2] *= -1
    values[:, 1] = 0
    fitted = fit_projection(cut(values, 9_000), 1, len(values))
    exact = values[:, 0].astype(np.float64).var(ddof=1)
    assert fitted.variances[0] == pytest.approx(exact, rel=1e-6)


def test_the_cut_into_blocks_changes_nothing():
    values = sample(300, 17, offset=3)
    whole = fit_projection([values], 5, 300)
    for sizes in ((1,), (64,), (63, 2), (7, 200, 40)):
        other = fit_projection(cut(values, *sizes), 5, 300)
        assert other.components.tobytes() == whole.components.tobytes(), sizes
        assert other.variances.tobytes() == whole.variances.tobytes(), sizes
        assert other.mean.tobytes() == whole.mean.tobytes(), sizes


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_values_that_are_not_finite(value):
    values = sample(150, 9)
    values[100, 4] = value
    message = "NaN or infinity in 1 of 9 columns, in rows 64 to 127"
    with pytest.raises(WorkbenchError, match=message):
        fit_projection(cut(values, 30), 3, 150)


def test_values_whose_squares_overflow():
    with pytest.raises(WorkbenchError, match="too large"), np.errstate(over="ignore"):
        fit_projection([sample(50, 4) * np.float32(1e25)], 2, 50)


def test_rows_that_are_all_equal():
    row = np.random.default_rng(0).standard_normal(6, dtype=np.float32) * 1e3
    with pytest.raises(WorkbenchError, match="all 150 sentence vectors are equal"):
        fit_projection([np.tile(row, (150, 1))], 2, 150)
