import string

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.sentences.encodings.mean_vector import MeanVector

WORDS = ["dog", "cat", "a"]
VECTORS = np.array([[1, 2], [3, -4], [0.5, 0]], np.float32)


def test_occurrences_count_and_unknown_words_do_not():
    encoder = MeanVector(WORDS, VECTORS)
    captions = [["a", "dog", "a", "zebra"], ["zebra"], [], ["cat"]]
    encoded = encoder.encode(captions)
    assert encoder.dim == 2
    assert encoded.dtype == np.float32
    assert encoder.known(captions).tolist() == [3, 0, 0, 1]
    assert encoder.known(captions).dtype == np.int64
    np.testing.assert_allclose(encoded[0], [2 / 3, 2 / 3], rtol=1e-6)
    np.testing.assert_array_equal(encoded[1:], [[0, 0], [0, 0], [3, -4]])


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
    assert encoded.shape == (len(captions), width)
    for caption, known, found in zip(captions, encoder.known(captions), encoded, strict=True):
        rows = [vectors[words.index(word)].astype(float) for word in caption if word in words]
        assert known == len(rows)
        expected = np.mean(rows, axis=0) if rows else np.zeros(width)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_restored_encoder_gives_the_same_bytes():
    encoder = MeanVector(WORDS, VECTORS)
    captions = [["dog", "cat", "cat"], ["zebra"]]
    restored = MeanVector.restore(encoder.state())
    assert encoder.state().words == WORDS
    assert restored.encode(captions).tobytes() == encoder.encode(captions).tobytes()
