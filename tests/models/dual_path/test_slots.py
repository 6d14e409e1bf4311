"""Captions in slots: what is dropped, clipped and shifted."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from models.dual_path.text import CaptionSlots, SlotRows
from pipeline.corpus.vocabulary import content_digest
from pipeline.runtime.errors import WorkbenchError

CAPTIONS = st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=9), min_size=1, max_size=12)


@given(CAPTIONS, st.integers(1, 12), st.integers(0, 99))
@settings(max_examples=40)
def test_slots_hold_the_first_words_in_their_order(captions, slots, seed):
    source = SlotRows(captions, slots)
    rows = np.random.default_rng(seed).permutation(len(captions))
    clipped = [captions[row][:slots] for row in rows]
    fixed = source(rows)
    assert fixed.tolist() == [words + [0] * (slots - len(words)) for words in clipped]
    shifted = source(rows, np.random.default_rng(seed))
    assert shifted.shape == fixed.shape
    for words, row in zip(clipped, shifted.tolist(), strict=True):
        start = next(slot for slot, word in enumerate(row) if word)
        assert row == [0] * start + words + [0] * (slots - start - len(words))
    assert source.clipped == sum(len(words) > slots for words in captions)


def test_every_shift_is_equally_likely():
    source = SlotRows([[7, 7, 7], [5]], 8)
    rows = np.repeat([0, 1], 6000)
    shifted = source(rows, np.random.default_rng(0))
    starts = (shifted != 0).int().argmax(1).numpy()
    for row, possible in ((0, 6), (1, 8)):
        counts = np.bincount(starts[rows == row], minlength=possible)
        assert len(counts) == possible
        assert chisquare(counts).pvalue > 0.01


def test_left_alignment_draws_nothing():
    source = SlotRows([[7, 8], [5]], 4, "left")
    generator = np.random.default_rng(0)
    aligned = source(np.array([1, 0]), generator)
    assert aligned.tolist() == [[5, 0, 0, 0], [7, 8, 0, 0]]
    assert generator.random() == np.random.default_rng(0).random()


@pytest.fixture
def captions_in(tmp_path):
    """Captions in so many slots, of a vocabulary of two words, with sentence markers or without."""

    def make(slots, markers=False):
        first = ("<pad>", "<unk>", "<start>", "<end>")[: 4 if markers else 2]
        tokens = dict.fromkeys([*first, "red", "blue"], 1)
        content = {"schema_version": 1, "sentence_markers": markers, "tokens": tokens}
        content["sha256"] = content_digest(content)
        (tmp_path / "vocabulary.json").write_text(json.dumps(content))
        return CaptionSlots(tmp_path, slots, "shift")

    return make


def table(*captions):
    names = [f"c{number}" for number in range(len(captions))]
    return pd.DataFrame({"caption_id": names, "tokens": list(captions)})


def test_unknown_words_are_dropped_before_clipping_and_counted(captions_in):
    captions = table(["odd", "red", "odd", "blue"], ["blue", "red", "red"], ["red"])
    source = captions_in(2).source(captions)
    assert source(np.arange(3)).tolist() == [[2, 3], [3, 2], [2, 0]]
    assert (source.clipped, source.dropped) == (1, 2)


def test_sentence_markers_are_words_of_the_caption(captions_in):
    source = captions_in(5, markers=True).source(table(["odd", "red"]))
    assert source(np.array([0])).tolist() == [[2, 4, 3, 0, 0]]


@pytest.mark.parametrize("markers", [False, True])
def test_captions_of_which_nothing_is_left_are_named(captions_in, markers):
    captions = table(["red"], ["odd"], [], ["blue", "odd"])
    with pytest.raises(WorkbenchError, match="2 captions have no word of the vocabulary: c1, c2"):
        captions_in(4, markers).source(captions)


def test_a_text_is_read_as_a_caption_in_scoring_and_what_is_lost_is_told(captions_in):
    captions = captions_in(2)
    text = ["odd", "red", "blue", "red"]
    stored = captions.source(table(text))
    assert captions.encode([text, ["blue"]]).tolist() == [[2, 3], [3, 0]]
    assert captions.encode([text]).tolist() == stored(np.array([0])).tolist()
    assert captions.known(text) == [False, True, True, True]
    assert captions.notes(["red", "blue"], []) == []
    assert captions.notes(text, ["odd"]) == [
        "not in the vocabulary, left out: odd",
        "clipped to the first 2 words",
    ]
