from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.features.sentences.encodings.tfidf import fit_tfidf
from pipeline.features.sentences.lemmas import Lemmatiser, lemmatiser
from pipeline.runtime.errors import WorkbenchError

NONE = lemmatiser("none", None)
SINGULAR = Lemmatiser("singular", {"version": "1"}, lambda word: word.removesuffix("s"))
captions_strategy = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=6), max_size=8)


def fitted(captions, terms=10, stop=frozenset(), chosen=NONE):
    return fit_tfidf(captions, terms, chosen, stop)


@given(captions_strategy, captions_strategy)
def test_weights_are_those_of_the_slow_form(training, others):
    if not any(set(words) - {"a"} for words in training):
        return
    encoder = fitted(training, 3, frozenset("a"))
    rows = encoder.encode(others)
    assert (rows.shape, rows.dtype) == ((len(others), encoder.dim), np.float32)
    for caption, row in zip(others, rows, strict=True):
        weights = []
        for term in encoder.state().words:
            containing = sum(term in words for words in training)
            weights.append(caption.count(term) * (log((1 + len(training)) / (1 + containing)) + 1))
        norm = sqrt(sum(weight**2 for weight in weights))
        np.testing.assert_allclose(row, np.array(weights) / (norm or 1), atol=1e-6)


@given(captions_strategy, st.integers(0, 7))
def test_rows_have_unit_norm_or_are_zero_and_do_not_depend_on_others(captions, cut):
    encoder = fitted([list("abcd"), list("aab")], 3)
    rows, known = encoder.encode(captions), encoder.known(captions)
    assert known.tolist() == [sum(word in "abc" for word in words) for words in captions]
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), known > 0, atol=1e-6)
    alone = [encoder.encode([words]) for words in captions]
    parts = encoder.encode(captions[:cut]), encoder.encode(captions[cut:])
    assert rows.tobytes() == b"".join(row.tobytes() for row in alone)
    assert rows.tobytes() == np.concatenate(parts).tobytes()


def test_terms_are_the_most_frequent_lemmas_and_equal_ones_alphabetical():
    captions = [["d", "c", "b"], ["d", "b"], ["z", "z", "z"], ["c", "a"]]
    for order in (captions, captions[::-1]):
        assert fitted(order, 4).state().words == ["z", "b", "c", "d"]
    assert fitted(captions, 9).state().words == ["z", "b", "c", "d", "a"]


def test_stop_words_go_before_and_after_lemmatising():
    stop = frozenset({"his", "dog"})  # "his" would become "hi", "dogs" becomes "dog"
    encoder = fitted([["his", "dogs", "cats", "his"]], stop=stop, chosen=SINGULAR)
    assert encoder.state().words == ["cat"]
    assert encoder.known([["his", "dogs", "dog", "hi", "cat", "cats"]]).tolist() == [2]
    assert encoder.encode([["his", "dogs"], ["his", "cat"]]).tolist() == [[0.0], [1.0]]


def test_nothing_left_is_an_error():
    with pytest.raises(WorkbenchError, match="2 training captions without a word"):
        fitted([["a", "the"], []], stop=frozenset({"a", "the"}))
