import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.features.sentences.encodings.mean_vector import MeanVector
from pipeline.runtime.errors import WorkbenchError


@given(
    st.lists(st.lists(st.sampled_from(string.ascii_lowercase[:8]), max_size=9), max_size=7),
    st.integers(1, 6),
    st.integers(0, 2**32 - 1),
)
def test_agrees_with_a_loop_in_double_precision(captions, width, seed):
    words = list("bdfa")
    vectors = np.random.default_rng(seed).standard_normal((4, width), dtype=np.float32)
    encoder = MeanVector(words, vectors)
    encoded = encoder.encode(captions)
    assert (encoded.shape, encoded.dtype) == ((len(captions), encoder.dim), np.float32)
    for caption, known, found in zip(captions, encoder.known(captions), encoded, strict=True):
        rows = [vectors[words.index(word)].astype(float) for word in caption if word in words]
        assert known == len(rows)
        expected = np.mean(rows, axis=0) if rows else np.zeros(width)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_vectors_that_are_not_finite_are_named():
    vectors = np.array([[-np.inf, 1], [0, 0], [0, np.nan]], np.float32)
    with pytest.raises(WorkbenchError, match=r"2 word vectors .* not finite: a, c\n"):
        MeanVector(["a", "b", "c"], vectors)
