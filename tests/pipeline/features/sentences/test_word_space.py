"""The word space against its formula and scikit-learn."""

import warnings

import numpy as np
import pytest
from sklearn.decomposition import FastICA

from pipeline.features.sentences import word_space
from pipeline.features.sentences.word_space import WordSpace, fit_word_space
from pipeline.runtime.errors import WorkbenchError


def some_vectors(count: int = 400, width: int = 5, seed: int = 0) -> np.ndarray:
    """Skewed, correlated vectors with a mean that is not zero, (count, width) float32."""
    random = np.random.default_rng(seed)
    sources = random.exponential(size=(count, width)) ** 1.5
    return (sources @ random.normal(size=(width, width)) + 0.5).astype(np.float32)


def unit(row: np.ndarray) -> np.ndarray:
    length = np.sqrt(sum(float(value) ** 2 for value in row))
    return row if length == 0 else np.asarray(row, np.float64) / length


@pytest.mark.parametrize("scale", [1.0, 10.0])
@pytest.mark.parametrize("width", [3, None])
def test_apply_is_the_literal_formula(scale, width):
    """Without a matrix, vectors are only normalised and scaled; rows of zeros stay zero."""
    random = np.random.default_rng(1)
    vectors = random.normal(size=(20, 5)).astype(np.float32)
    vectors[3] = 0
    whitening = random.normal(size=(width, 5)).astype(np.float32) if width else None
    mapped = WordSpace(whitening, scale).apply(vectors)
    assert mapped.dtype == np.float32
    for row, image in zip(vectors, mapped, strict=True):
        turned = unit(row) if whitening is None else unit(whitening @ unit(row))
        np.testing.assert_allclose(image, scale * turned, rtol=1e-5)


def test_the_matrix_is_that_of_scikit_learn(capsys):
    vectors = some_vectors()
    vectors[[0, 17]] = 0
    units = np.array([unit(row) for row in vectors])
    ica = FastICA(3, whiten="unit-variance", whiten_solver="eigh", random_state=7)
    space = fit_word_space(vectors, 3, 10.0, seed=7)
    assert "not settled" not in capsys.readouterr().err
    assert space.whitening.dtype == np.float32
    np.testing.assert_allclose(space.whitening, ica.fit(units).components_, rtol=1e-4, atol=1e-5)


def test_a_constant_first_dimension_is_left_out():
    vectors = some_vectors()
    vectors[:, 0] = 0
    with_it = fit_word_space(vectors, 4, 10.0, seed=0).whitening
    without = fit_word_space(vectors[:, 1:], 4, 10.0, seed=0).whitening
    np.testing.assert_array_equal(with_it, np.column_stack([np.zeros(4), without]))


def test_ica_that_does_not_settle_says_so(monkeypatch, capsys):
    monkeypatch.setattr(word_space, "ITERATIONS", 2)
    gaussians = np.random.default_rng(0).normal(size=(300, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_word_space(gaussians, 6, 1.0, seed=0)
    assert "not settled after 2 iterations" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("vectors", "components", "message"),
    [
        (some_vectors(50, 4), 5, "5 ICA components: the word vectors vary in 4 directions only"),
        (some_vectors(4, 4), 4, "need 5 word vectors: there are 4"),
        (np.repeat(some_vectors(4, 4), 5, axis=0), 4, "vary in 3 directions only"),
        (np.ones((50, 4)), 2, "vary in 0 directions only"),
    ],
)
def test_bad_input_is_named(vectors, components, message):
    with pytest.raises(WorkbenchError, match=message):
        fit_word_space(vectors, components, 10.0, seed=0)
