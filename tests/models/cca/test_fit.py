"""Streamed CCA against the textbook's block eigenproblem, and on data whose answer is known."""

import numpy as np
import pytest
from scipy.linalg import block_diag, eigh, subspace_angles

from models.cca import fit_cca, fit_each, largest_eigenvalue
from pipeline.features.statistics import covariance
from pipeline.runtime.errors import WorkbenchError


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks and panels of a few rows and columns, so that tests cross their edges."""
    monkeypatch.setattr(covariance, "CHUNK", 64)
    monkeypatch.setattr(covariance, "PANEL", 5)


def sample(rows, image, sentence, shared=4, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    latent = rng.standard_normal((rows, shared)) * np.linspace(2, 0.5, shared)
    sides = [
        latent @ rng.standard_normal((shared, width))
        + noise * rng.standard_normal((rows, width)) * rng.uniform(0.5, 2, width)
        + rng.standard_normal(width)
        for width in (image, sentence)
    ]
    return tuple(side.astype(np.float32) for side in sides)


def cut(x, y, size):
    return ((x[i : i + size], y[i : i + size]) for i in range(0, len(x), size))


def regularised(x, regularisation):
    matrix = np.atleast_2d(np.cov(x.astype(np.float64), rowvar=False))
    added = regularisation * np.linalg.eigvalsh(matrix)[-1] + 1e-8
    return matrix + added * np.eye(len(matrix))


def dense(x, y, regularisation):
    """Values and vectors of [[0, Cxy], [Cyx, 0]] v = rho [[Cx, 0], [0, Cy]] v, largest first."""
    cx, cy = regularised(x, regularisation), regularised(y, regularisation)
    cross = np.cov(np.hstack([x, y]).astype(np.float64), rowvar=False)[: len(cx), len(cx) :]
    left = np.block([[np.zeros_like(cx), cross], [cross.T, np.zeros_like(cy)]])
    values, vectors = eigh(left, block_diag(cx, cy))
    return values[::-1], vectors[:, ::-1]


@pytest.mark.parametrize(
    ("rows", "image", "sentence", "dim"),
    [(400, 9, 14, 4), (400, 14, 9, 4), (400, 7, 7, 4), (400, 1, 5, 1), (12, 20, 30, 11)],
)
@pytest.mark.parametrize("regularisation", [1e-4, 0.1])
def test_agrees_with_the_block_eigenproblem(rows, image, sentence, dim, regularisation):
    """Fewer rows than columns included."""
    x, y = sample(rows, image, sentence)
    fitted = fit_cca(cut(x, y, 90), dim, regularisation, rows)
    values, vectors = dense(x, y, regularisation)
    np.testing.assert_allclose(fitted.correlations, values[:dim], atol=1e-5)
    for weights, part in (
        (fitted.image_weights, vectors[:image, :dim]),
        (fitted.sentence_weights, vectors[image:, :dim]),
    ):
        assert weights.shape == part.shape
        assert subspace_angles(weights.astype(np.float64), part).max() < 2e-3
        turned = weights * np.sign((weights * part).sum(axis=0))
        # each half of a block eigenvector has half the norm
        np.testing.assert_allclose(turned, part * np.sqrt(2), atol=2e-3 * np.abs(part).max())
        assert weights.dtype == np.float32
    largest = np.abs(fitted.image_weights).argmax(axis=0)
    assert (fitted.image_weights[largest, np.arange(dim)] > 0).all()
    np.testing.assert_allclose(fitted.image_mean, x.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(fitted.sentence_mean, y.mean(axis=0), atol=1e-5)


def test_the_fixed_part_of_the_regulariser():
    """1e-8 is all there is without eta, and counts where variances are of that size."""
    x, y = (side * np.float32(1e-4) for side in sample(400, 6, 8))
    fitted = fit_cca([(x, y)], 3, 0.0, 400)
    np.testing.assert_allclose(fitted.correlations, dense(x, y, 0.0)[0][:3], atol=1e-5)
    assert dense(x, y, 0.0)[0][0] < 0.99 * dense(x * 1e4, y * 1e4, 0.0)[0][0]


@pytest.mark.parametrize(("image", "sentence"), [(12, 7), (6, 11)])
def test_several_regularisations_give_what_each_alone_gives(image, sentence):
    pair = sample(200, image, sentence)
    values = (1e-4, 0.3, 1e-2)
    for value, fitted in zip(values, fit_each(cut(*pair, 60), 4, values, 200), strict=True):
        alone = fit_cca(cut(*pair, 60), 4, value, 200)
        for field in ("image_weights", "sentence_weights", "correlations", "image_mean"):
            np.testing.assert_array_equal(getattr(fitted, field), getattr(alone, field))


@pytest.mark.parametrize("swapped", [False, True])
def test_constant_columns_are_counted_and_change_nothing(swapped):
    x, y = sample(300, 6, 8)
    x = np.insert(x, [2, 4], np.float32(0.1), axis=1)
    y = np.insert(y, [0], np.float32(-7.3), axis=1)
    pairs = (y, x) if swapped else (x, y)
    fitted = fit_cca([pairs], 4, 1e-4, 300)
    assert fitted.constant == ((1, 2) if swapped else (2, 1))
    weights = fitted.sentence_weights if swapped else fitted.image_weights
    assert not weights[[2, 5]].any()
    x, y = np.delete(x, [2, 5], axis=1), y[:, 1:]
    without = fit_cca([(y, x) if swapped else (x, y)], 4, 1e-4, 300)
    assert without.constant == (0, 0)
    np.testing.assert_allclose(fitted.correlations, without.correlations, atol=1e-6)
    kept = np.delete(weights, [2, 5], axis=0)
    other = without.sentence_weights if swapped else without.image_weights
    np.testing.assert_allclose(kept, other, atol=1e-4)


@pytest.mark.parametrize("regularisation", [1e-6, 1e-2])
@pytest.mark.parametrize(
    ("rows", "image", "sentence", "rank"), [(300, 6, 8, 2), (300, 60, 80, 20), (3000, 90, 50, 30)]
)
def test_rounding_is_no_correlation(rows, image, sentence, rank, regularisation):
    """Columns that mix fewer variables than there are columns: float32 alone tells them apart."""
    rng = np.random.default_rng(1)
    latent = rng.standard_normal((rows, rank))
    x = latent @ rng.standard_normal((rank, image))
    y = latent @ rng.standard_normal((rank, sentence)) + rng.standard_normal((rows, sentence))
    pair = tuple(side.astype(np.float32) for side in (x, y))
    fitted = fit_cca([pair], rank + 3, regularisation, rows)
    assert (fitted.correlations[:rank] > 0.1).all()
    assert not fitted.correlations[rank:].any()
    for weights in (fitted.image_weights, fitted.sentence_weights):
        assert weights[:, :rank].any(axis=0).all()
        assert not weights[:, rank:].any()


def falling(size):
    values = np.random.default_rng(size).standard_normal((300, size)) * 0.98 ** np.arange(size)
    return values.T @ values


@pytest.mark.parametrize(
    "matrix",
    # of the last three Lanczos meets an invariant subspace after a step or two
    [*map(falling, (1, 2, 30, 200)), np.eye(9), np.diag([0.0, 0, 3, 0]), np.ones((50, 50))],
)
def test_largest_eigenvalue(matrix):
    expected = np.linalg.eigvalsh(matrix)[-1]
    found = largest_eigenvalue(np.asfortranarray(np.tril(matrix)))
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("rows", "image", "sentence", "dim", "allowed"), [(100, 6, 9, 7, 6), (8, 20, 30, 8, 7)]
)
def test_too_many_directions(rows, image, sentence, dim, allowed):
    with pytest.raises(WorkbenchError) as caught:
        fit_cca([sample(rows, image, sentence)], dim, 1e-4, rows)
    assert caught.value.message == (
        f"cca.dim = {dim}: {rows} training pairs of {image} and {sentence} numbers "
        f"allow 1 to {allowed}"
    )


@pytest.mark.parametrize(
    ("side", "name", "width"), [(0, "image features", 6), (1, "sentence vectors", 5)]
)
def test_a_side_that_cannot_be_fitted(side, name, width):
    pair = sample(100, 6, 5)
    pair[side][70, :3] = np.nan
    with pytest.raises(WorkbenchError, match=f"{name}: NaN or infinity in 3 of "):
        fit_cca(cut(*pair, 40), 2, 1e-4, 100)
    pair[side][:] = pair[side][0]
    with pytest.raises(WorkbenchError, match=f"all {width} columns of the {name} are constant"):
        fit_cca([pair], 2, 1e-4, 100)


def test_a_singular_covariance_without_regularisation():
    x, y = sample(300, 4, 8)
    x = np.hstack([x, x]) * 1e4
    with pytest.raises(WorkbenchError, match=r"regularisation = 0: .* image features is singular"):
        fit_cca([(x, y)], 2, 0.0, 300)
