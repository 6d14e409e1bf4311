import string

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.runtime.errors import WorkbenchError
from pipeline.sentences.bags import add_rows, gather, index_words

INDEX = {"dog": 2, "cat": 0, "a": 1}
CAPTIONS = st.lists(st.lists(st.sampled_from(string.ascii_lowercase[:6]), max_size=8), max_size=8)


def test_rows_follow_the_captions_and_unknown_words_are_left_out():
    bags = gather([["a", "zebra", "dog", "a"], [], ["zebra"], ["cat"]], INDEX)
    assert bags.rows.tolist() == [1, 2, 1, 0]
    assert bags.starts.tolist() == [0, 3, 3, 3]
    assert bags.lengths.tolist() == [3, 0, 0, 1]
    assert {array.dtype for array in (bags.rows, bags.starts, bags.lengths)} == {np.dtype(np.int64)}


@given(CAPTIONS)
def test_every_bag_is_its_captions_known_words(captions):
    index = {"a": 3, "c": 0, "d": 1}
    bags = gather(captions, index)
    assert len(bags.starts) == len(bags.lengths) == len(captions)
    assert bags.lengths.sum() == len(bags.rows)
    for caption, start, length in zip(captions, bags.starts, bags.lengths, strict=True):
        expected = [index[word] for word in caption if word in index]
        assert bags.rows[start : start + length].tolist() == expected


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


def test_words_are_indexed_by_row():
    assert index_words(["dog", "a"], np.zeros((2, 3))) == {"dog": 0, "a": 1}


def test_vectors_that_are_not_finite_are_named():
    vectors = np.array([[-np.inf, 1], [0, 0], [0, np.nan]])
    with pytest.raises(WorkbenchError, match=r"2 word vectors .* not finite: a, c\n"):
        index_words(["a", "b", "c"], vectors)
