import string

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mixture_cases import some_mixture
from torch.distributions import Laplace, Normal

from pipeline.features.sentences.encodings.fisher import JoinedFisher
from pipeline.features.sentences.fisher import LEAST, PAIRS, TILE, FisherVector, fisher_table
from pipeline.features.sentences.mixtures import KINDS, Mixture
from pipeline.runtime.errors import WorkbenchError

WORDS = list(string.ascii_lowercase[:20])


def word_vectors(count=20, dims=5, seed=1):
    return np.random.default_rng(seed).standard_normal((count, dims), dtype=np.float32)


def whole(table):
    """A table as (V, 2KC), zeros where it has nothing."""
    if table.values.ndim == 4:
        return table.values.reshape(len(table.counts), -1)
    words = np.repeat(np.arange(len(table.counts)), table.counts)
    rows = np.zeros((len(table.counts), 2, table.most, table.values.shape[2]), table.values.dtype)
    rows[words, :, table.centres] = table.values.swapaxes(0, 1)
    return rows.reshape(len(rows), -1)


def gradients_by_autograd(x, model):
    """d log p(x) for locations and widths of the active families, times F^-1/2: (2, K, C)."""
    laplacian = torch.from_numpy(model.laplacian)
    location = torch.from_numpy(np.where(model.laplacian, model.median, model.mean))
    width = torch.from_numpy(np.where(model.laplacian, model.scale, np.sqrt(model.variance)))
    location.requires_grad_()
    width.requires_grad_()
    densities = torch.where(
        laplacian, Laplace(location, width).log_prob(x), Normal(location, width).log_prob(x)
    )
    weights = torch.from_numpy(model.weights)
    torch.logsumexp(weights.log() + densities.sum(1), 0).backward()
    information = weights[:, None] / width.detach() ** 2
    twice = torch.where(laplacian, 1.0, 2.0).double()
    roots = information.sqrt(), (twice * information).sqrt()
    return torch.stack([location.grad / roots[0], width.grad / roots[1]])


def by_loops(words, vectors, model, caption):
    """Klein et al.'s definition, one number at a time, then signed root and unit length."""
    rows = [vectors[words.index(word)].astype(float) for word in caption if word in words]
    centres, dims = model.laplacian.shape
    result = np.zeros((2, centres, dims))
    for x in rows:
        gamma = model.responsibilities(x[None])[0]
        for k in range(centres):
            part = gamma[k] / np.sqrt(len(rows) * model.weights[k])
            for d in range(dims):
                if model.laplacian[k, d]:
                    away = x[d] - model.median[k, d]
                    result[0, k, d] += part * (1 if away >= 0 else -1)
                    result[1, k, d] += part * (abs(away) / model.scale[k, d] - 1)
                else:
                    away = (x[d] - model.mean[k, d]) / np.sqrt(model.variance[k, d])
                    result[0, k, d] += part * away
                    result[1, k, d] += part * (away**2 - 1) / np.sqrt(2)
    result = np.sign(result) * np.sqrt(np.abs(result))
    norm = np.linalg.norm(result)
    return result.ravel() / norm if norm else result.ravel()


def assert_close_before_the_root(found, expected):
    """The root itself turns a rounding error of 1e-7 beside zero into 3e-4."""
    np.testing.assert_allclose(found * abs(found), expected * abs(expected), atol=1e-6)


def test_table_in_single_precision_is_the_double_one_rounded_whatever_the_tiles():
    model, vectors = some_mixture("hglmm", 4, 5), word_vectors(PAIRS // 2 + 3)
    exact = whole(fisher_table(vectors, model, np.float64))
    np.testing.assert_array_equal(whole(fisher_table(vectors, model)), exact.astype(np.float32))
    rows = [whole(fisher_table(row[None], model, np.float64)) for row in vectors]
    one_by_one = np.concatenate(rows)
    np.testing.assert_allclose(exact, one_by_one, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_table_leaves_out_is_below_the_rounding_of_a_unit_row(kind):
    """Every value of every word in float64, and then its root, beside the encoder's."""
    model, vectors = some_mixture(kind, 6, 80), 8 * word_vectors(20, 80)
    share = model.responsibilities(vectors) / np.sqrt(model.weights)
    rows = torch.from_numpy(vectors).double()
    expected = np.stack([gradients_by_autograd(x, model) for x in rows])
    table = fisher_table(vectors, model, np.float64)
    assert len(table.centres) == (share > LEAST * share.max(axis=1, keepdims=True)).sum()
    assert table.values.shape == (2, len(table.centres), 80)

    encoder = FisherVector(WORDS, vectors, model)
    for caption in (["a"], ["b", "b", "c"], WORDS):
        rows = [WORDS.index(word) for word in caption]
        roots = []
        for sums in (expected[rows].sum(axis=0).ravel(), whole(table)[rows].sum(axis=0)):
            roots.append(np.sign(sums) * np.sqrt(np.abs(sums) / np.abs(sums).sum()))
        assert np.linalg.norm(roots[0] - roots[1]) < 2**-22
        assert_close_before_the_root(encoder.encode([caption])[0], roots[0])


def test_at_its_median_a_laplacian_is_climbed_from_the_right():
    model = some_mixture("lmm", 1, 5)
    first, second = whole(fisher_table(model.median, model, np.float64)).reshape(2, 5)
    assert first.tolist() == [1] * 5
    assert second.tolist() == [-1] * 5
    below = whole(fisher_table(model.median - 1e-9, model, np.float64))
    assert below[0, :5].tolist() == [-1] * 5


@settings(max_examples=30)
@given(
    st.sampled_from(KINDS),
    st.lists(st.lists(st.sampled_from(string.ascii_lowercase), max_size=8), max_size=6),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
)
def test_captions_agree_with_loops(kind, captions, centres, dims, seed):
    model = some_mixture(kind, centres, dims, seed)
    vectors = word_vectors(20, dims, seed)
    encoder = FisherVector(WORDS, vectors, model)
    encoded = encoder.encode(captions)
    assert encoder.dim == 2 * centres * dims
    assert encoded.shape == (len(captions), encoder.dim)
    assert encoded.dtype == np.float32
    for caption, known, found in zip(captions, encoder.known(captions), encoded, strict=True):
        assert known == sum(word in WORDS for word in caption)
        expected = by_loops(WORDS, vectors, model, caption)
        assert_close_before_the_root(found, expected)


@pytest.mark.parametrize(
    ("kind", "centres", "dims", "scale"),
    [("hglmm", 3, 5, 1), ("gmm", 64, 300, 1), ("gmm", 64, 300, 4)],
)
def test_rows_are_the_same_bytes_in_blocks_of_any_size(kind, centres, dims, scale):
    random = np.random.default_rng(0)
    model, vectors = some_mixture(kind, centres, dims), scale * word_vectors(20, dims)
    encoder = FisherVector(WORDS, vectors, model)
    captions = [list(random.choice(WORDS, size)) for size in random.integers(0, 9, TILE + 6)]
    whole = encoder.encode(captions)
    for block in (1, 3):
        starts = range(0, len(captions), block)
        blocks = [encoder.encode(captions[start : start + block]) for start in starts]
        assert np.concatenate(blocks).tobytes() == whole.tobytes()


def test_a_part_whose_gradients_cancel_leaves_the_other_at_unit_length():
    flat = np.zeros((1, 1), bool)
    shape = {name: np.ones((1, 1)) for name in ("variance", "median", "scale")}
    model = Mixture("gmm", np.ones(1), np.zeros((1, 1)), **shape, laplacian=flat)
    vectors = np.array([[1], [-1]], np.float32)  # of both the gradients cancel
    one, other = (FisherVector(["a", "b"], scale * vectors, model) for scale in (1, 2))
    assert not one.encode([["a", "b"]]).any()
    found = JoinedFisher({"gmm": one, "hglmm": other}).encode([["a", "b"]])
    np.testing.assert_allclose(np.linalg.norm(found), 1, rtol=1e-6)


def test_words_too_far_from_the_mixture_are_a_plain_error():
    model = some_mixture("gmm", 4, 5)
    with pytest.raises(WorkbenchError, match="too far from the mixture's centres"):
        FisherVector(["a"], np.full((1, 5), 1e25, np.float32), model)
