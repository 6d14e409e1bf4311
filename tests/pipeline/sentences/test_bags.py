import string

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.runtime.errors import WorkbenchError
from pipeline.sentences.bags import add_rows, gather, index_words

CAPTIONS = st.lists(st.lists(st.sampled_from(string.ascii_lowercase[:6]), max_size=8), max_size=8)


@given(CAPTIONS, st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_sums_are_those_of_a_loop_in_the_captions_order(captions, width, seed):
    index = {"b": 2, "c": 0, "e": 1}
    table = np.random.default_rng(seed).standard_normal((3, width), dtype=np.float32)
    sums = add_rows(torch.from_numpy(table), gather(captions, index))
    assert sums.dtype == torch.float32
    assert sums.shape == (len(captions), width)
    for caption, found in zip(captions, sums.numpy(), strict=True):
        expected = np.zeros(width, np.float32)
        for word in caption:
            if word in index:
                expected += table[index[word]]
        np.testing.assert_array_equal(found, expected)


def test_vectors_that_are_not_finite_are_named():
    vectors = np.array([[-np.inf, 1], [0, 0], [0, np.nan]])
    with pytest.raises(WorkbenchError, match=r"2 word vectors .* not finite: a, c\n"):
        index_words(["a", "b", "c"], vectors)
