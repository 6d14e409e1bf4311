import json
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.runtime.errors import WorkbenchError
from pipeline.sentences.encodings.tfidf import TfIdf, fit_tfidf
from pipeline.sentences.lemmas import Lemmatiser, lemmatiser
from pipeline.sentences.state import State

NONE = lemmatiser("none", None)
SINGULAR = Lemmatiser("singular", {"version": "1"}, lambda word: word.removesuffix("s"))
STOP = frozenset({"a", "the"})
TRAINING = [
    ["a", "dog", "dogs", "the", "cat"],
    ["a", "cats", "ball"],
    ["a", "the"],
    ["dogs", "run"],
]
captions_strategy = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=6), max_size=8)


def fitted(captions=TRAINING, terms=10, stop=STOP, chosen=SINGULAR):
    return fit_tfidf(captions, terms, chosen, stop)


def test_a_hand_computed_example():
    """n = 4; dog occurs 3 times in 2 captions, cat 2 in 2, ball and run once in 1."""
    encoder = fitted()
    state = encoder.state()
    assert state.words == ["dog", "cat", "ball", "run"]
    common, rare = log(5 / 3) + 1, log(5 / 2) + 1
    np.testing.assert_allclose(state.arrays["idf"], [common, common, rare, rare])
    rows = encoder.encode([["dogs", "a", "dog", "ball"], ["zebra"]])
    norm = sqrt((2 * common) ** 2 + rare**2)
    expected = [[2 * common / norm, 0, rare / norm, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(rows, expected, rtol=1e-6)
    assert rows.dtype == np.float32
    assert rows.shape == (2, encoder.dim) == (2, 4)


@given(captions_strategy, captions_strategy)
def test_weights_are_those_of_the_slow_form(training, others):
    if not any(set(words) - {"a"} for words in training):
        return
    encoder = fitted(training, 3, frozenset("a"), NONE)
    for caption, row in zip(others, encoder.encode(others), strict=True):
        weights = []
        for term in encoder.state().words:
            containing = sum(term in words for words in training)
            weights.append(caption.count(term) * (log((1 + len(training)) / (1 + containing)) + 1))
        norm = sqrt(sum(weight**2 for weight in weights))
        np.testing.assert_allclose(row, np.array(weights) / (norm or 1), atol=1e-6)


@given(captions_strategy, st.integers(0, 7))
def test_rows_have_unit_norm_or_are_zero_and_do_not_depend_on_others(captions, cut):
    encoder = fitted([list("abcd"), list("aab")], 3, frozenset(), NONE)
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
        assert fitted(order, 4, frozenset(), NONE).state().words == ["z", "b", "c", "d"]
    assert fitted(captions, 9, frozenset(), NONE).state().words == ["z", "b", "c", "d", "a"]


def test_stop_words_go_before_and_after_lemmatising():
    stop = frozenset({"his", "dog"})  # "his" would become "hi", "dogs" becomes "dog"
    encoder = fitted([["his", "dogs", "cats", "his"]], stop=stop)
    assert encoder.state().words == ["cat"]
    assert encoder.known([["his", "dogs", "dog", "hi", "cat", "cats"]]).tolist() == [2]
    assert encoder.encode([["his", "dogs"], ["his", "cat"]]).tolist() == [[0.0], [1.0]]


def test_nothing_left_is_an_error():
    with pytest.raises(WorkbenchError, match="2 training captions without a word"):
        fitted([["a", "the"], []])


def test_no_captions_are_no_rows():
    assert fitted().encode([]).shape == (0, 4)
    assert fitted().known([]).shape == (0,)


def test_a_restored_encoder_gives_the_same_bytes():
    encoder = fitted()
    state = encoder.state()
    settings = json.loads(json.dumps(state.settings))
    again = TfIdf.restore_with(SINGULAR, State(settings, list(state.words), state.arrays))
    others = [["dogs", "cat"], ["a", "ball", "runs", "runs"], []]
    assert again.encode(others).tobytes() == encoder.encode(others).tobytes()
    assert again.known(others).tolist() == encoder.known(others).tolist()
    assert again.state().settings == settings
    assert settings["lemmatiser"] == "singular"
    assert settings["stop_words"] == ["a", "the"]
