"""The mixtures against loops, scipy's densities and scikit-learn's EM."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as some
from mixture_cases import some_mixture
from scipy import stats
from sklearn.mixture import GaussianMixture

from pipeline.features.sentences import mixtures
from pipeline.features.sentences.mixtures import FLOOR, KINDS, WEIGHT_FLOOR, Mixture, fit_mixture
from pipeline.runtime.errors import WorkbenchError


def some_data(count: int = 60, width: int = 4, centres: int = 3, seed: int = 0) -> tuple:
    """Rows (N, D) float32 and responsibilities (N, K)."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, width)).astype(np.float32)
    return x, random.dirichlet(np.full(centres, 0.5), count)


def literal_median(values: np.ndarray, weights: np.ndarray) -> float:
    """First value by size at which the cumulated weight is half of all weight."""
    half, reached = weights.sum() / 2, 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        reached += weight
        if reached >= half:
            return value
    raise AssertionError("the weights do not add up")


def start(x: np.ndarray, kind: str, centres: int, seed: int) -> Mixture:
    order = None if kind == "gmm" else mixtures.sort_dimensions(x)
    return mixtures.initial_mixture(x, order, kind, centres, seed)


def log_likelihood(mixture: Mixture, x: np.ndarray) -> float:
    """Mean over the rows of the natural logarithm of their density."""
    return float(np.mean(np.logaddexp.reduce(mixture.log_joint(x), axis=1)))


@pytest.mark.parametrize("kind", KINDS)
def test_log_joint_is_a_sum_of_scipy_densities(kind, monkeypatch):
    monkeypatch.setattr(mixtures, "_BLOCK", 28)  # several blocks, the last one short
    mixture = some_mixture(kind)
    x, _ = some_data(30)
    expected = np.zeros((30, 3))
    for i, row in enumerate(x):
        for k in range(3):
            expected[i, k] = np.log(mixture.weights[k])
            for d, value in enumerate(row):
                if mixture.laplacian[k, d]:
                    density = stats.laplace(mixture.median[k, d], mixture.scale[k, d])
                else:
                    density = stats.norm(mixture.mean[k, d], np.sqrt(mixture.variance[k, d]))
                expected[i, k] += density.logpdf(float(value))
    np.testing.assert_allclose(mixture.log_joint(x), expected, rtol=1e-12)
    joint = np.exp(expected)
    gamma = mixture.responsibilities(x)
    np.testing.assert_allclose(gamma, joint / joint.sum(axis=1, keepdims=True), rtol=1e-10)
    assert log_likelihood(mixture, x) == pytest.approx(np.log(joint.sum(axis=1)).mean())


@pytest.mark.parametrize("block", [2**16, 21])
@pytest.mark.parametrize("family", ["gaussian", "laplacian"])
def test_m_step_of_a_family_is_the_loop(family, block, monkeypatch):
    monkeypatch.setattr(mixtures, "_BLOCK", block)
    x, gamma = some_data()
    x[:, 1] *= 1e-4  # its variances and scales are at the floor
    if family == "gaussian":
        location, width, fit = mixtures.fit_gaussians(x, gamma)
    else:
        location, width, fit = mixtures.fit_laplacians(x, mixtures.sort_dimensions(x), gamma)
    for k in range(3):
        for d in range(4):
            weight, values = gamma[:, k], x[:, d].astype(float)
            if family == "gaussian":
                centre = sum(weight * values) / sum(weight)
                spread = max(FLOOR, sum(weight * (values - centre) ** 2) / sum(weight))
                density = stats.norm(centre, np.sqrt(spread))
                assert location[k, d] == pytest.approx(centre, rel=1e-10, abs=1e-14)
            else:
                centre = literal_median(values, weight)
                spread = max(FLOOR, sum(weight * abs(values - centre)) / sum(weight))
                density = stats.laplace(centre, spread)
                assert location[k, d] == centre
            expected = sum(weight * density.logpdf(values)) / sum(weight)
            assert width[k, d] == pytest.approx(spread, rel=1e-10)
            assert fit[k, d] == pytest.approx(expected, rel=1e-10)
    assert (width[:, 1] == FLOOR).all()


@settings(max_examples=30)
@given(data=st.data(), block=st.integers(1, 20))
def test_weighted_median_is_the_literal_one(data: st.DataObject, block: int):
    """Weights in eighths add up exactly, so that half is met exactly, in runs of equal values."""
    count = data.draw(st.integers(1, 25))
    x = data.draw(some.arrays(np.float64, (count, 2), elements=st.integers(-3, 3)))
    eighths = data.draw(some.arrays(np.float64, (count, 2), elements=st.integers(0, 8)))
    eighths[0] += 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixtures, "_BLOCK", block)
        median = mixtures.weighted_medians(x, mixtures.sort_dimensions(x), eighths / 8)
    for k in range(2):
        for d in range(2):
            assert median[k, d] == literal_median(x[:, d], eighths[:, k])


def test_switch_takes_the_family_of_the_greater_expected_log_density():
    x, gamma = some_data(40)
    x[:, ::2] **= 3  # long tails
    mixture = mixtures.maximise(start(x, "hglmm", 3, 0), x, mixtures.sort_dimensions(x), gamma)
    for k in range(3):
        for d in range(4):
            scales = mixture.scale[k, d], np.sqrt(mixture.variance[k, d])
            laplace = stats.laplace(mixture.median[k, d], scales[0]).logpdf(x[:, d])
            normal = stats.norm(mixture.mean[k, d], scales[1]).logpdf(x[:, d])
            better = (gamma[:, k] * laplace).sum() > (gamma[:, k] * normal).sum()
            assert mixture.laplacian[k, d] == better
    assert 0 < mixture.laplacian.sum() < 12
    np.testing.assert_allclose(mixture.weights, gamma.mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_start_is_rows_of_the_data_with_the_spread_of_all(kind):
    x, _ = some_data(50)
    mixture = start(x, kind, 4, 3)
    rows = {tuple(row) for row in x.astype(float)}
    assert len({tuple(row) for row in mixture.mean} & rows) == 4
    np.testing.assert_array_equal(mixture.mean, mixture.median)
    np.testing.assert_allclose(mixture.variance, np.tile(x.var(axis=0), (4, 1)), rtol=1e-5)
    if kind != "gmm":
        middle = np.sort(x, axis=0)[24]
        scale = np.abs(x - middle).mean(axis=0)
        np.testing.assert_allclose(mixture.scale, np.tile(scale, (4, 1)), rtol=1e-5)
    count = mixture.laplacian.sum()
    assert {"gmm": count == 0, "lmm": count == 16, "hglmm": 0 < count < 16}[kind]
    np.testing.assert_array_equal(mixture.weights, 0.25)


# few values, so that rows repeat; a tiny step, so that the floors are met; and a great spread
values = st.one_of(st.integers(-2, 2), st.sampled_from([1e-5, 0.3, 40.0, -1e6]))


@settings(max_examples=80)
@given(
    x=some.arrays(
        np.float64, st.tuples(st.integers(1, 20), st.integers(1, 3)), elements=values.map(float)
    ),
    kind=st.sampled_from(KINDS),
    centres=st.integers(1, 5),
    seed=st.integers(0, 50),
)
def test_log_likelihood_never_falls(x: np.ndarray, kind: str, centres: int, seed: int):
    different = len(np.unique(x, axis=0))
    if different < centres:
        with pytest.raises(WorkbenchError, match=f"different rows: there are {different} in"):
            fit_mixture(x, kind, centres, 5, seed)
        return
    mixture, history = fit_mixture(x, kind, centres, 5, seed)
    path = np.array([log_likelihood(start(x, kind, centres, seed), x), *history])
    assert len(history) == 5
    assert (np.diff(path) >= -1e-9 * (1 + np.abs(path[1:]))).all()
    assert log_likelihood(mixture, x) == pytest.approx(history[-1], rel=1e-12, abs=1e-12)
    assert np.isfinite(mixture.log_joint(x)).all()
    assert mixture.weights.sum() == pytest.approx(1)
    assert (mixture.weights > WEIGHT_FLOOR / 2).all()
    assert (mixture.variance >= FLOOR).all()
    assert (mixture.scale >= FLOOR).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_centre_without_rows_keeps_its_parameters(kind):
    x, gamma = some_data(40)
    gamma[:, 1] = 0
    gamma /= gamma.sum(axis=1, keepdims=True)
    old = start(x, kind, 3, 0)
    new = mixtures.maximise(old, x, None if kind == "gmm" else mixtures.sort_dimensions(x), gamma)
    for name in ("mean", "variance", "median", "scale", "laplacian"):
        np.testing.assert_array_equal(getattr(new, name)[1], getattr(old, name)[1])
    assert new.weights[1] == pytest.approx(WEIGHT_FLOOR)
    used = "median" if kind == "lmm" else "mean"
    assert (getattr(new, used)[[0, 2]] != getattr(old, used)[[0, 2]]).any(axis=1).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_gmm_is_that_of_scikit_learn():
    random = np.random.default_rng(0)
    x = random.normal(size=(500, 3)) + random.integers(0, 3, size=(500, 1)) * 2.0
    first = start(x, "gmm", 4, 5)
    oracle = GaussianMixture(4, covariance_type="diag", reg_covar=0, max_iter=6, tol=0)
    oracle.set_params(weights_init=first.weights, means_init=first.mean)
    oracle.set_params(precisions_init=1 / first.variance).fit(x)
    mixture, history = fit_mixture(x, "gmm", 4, 6, 5)
    np.testing.assert_allclose(mixture.weights, oracle.weights_, rtol=1e-9)
    np.testing.assert_allclose(mixture.mean, oracle.means_, rtol=1e-9)
    np.testing.assert_allclose(mixture.variance, oracle.covariances_, rtol=1e-9)
    np.testing.assert_allclose(mixture.responsibilities(x), oracle.predict_proba(x), atol=1e-9)
    assert history[-1] == pytest.approx(oracle.score(x))


@pytest.mark.parametrize("bad", [np.nan, -np.inf, 1e31])
def test_rows_that_are_not_numbers_are_named(bad: float, monkeypatch):
    monkeypatch.setattr(mixtures, "_BLOCK", 40)
    x, _ = some_data(60)
    x[[3, 41], [0, 2]] = bad
    with pytest.raises(WorkbenchError, match=r"2 of 60 rows .*: rows 3, 41$"):
        fit_mixture(x, "lmm", 2, 1, 0)
