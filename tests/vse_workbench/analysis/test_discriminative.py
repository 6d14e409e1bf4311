"""Leaving words out: against a loop over single captions, and against meanings that are known."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.runtime.errors import WorkbenchError
from vse_workbench.analysis.artefacts import example_lines
from vse_workbench.analysis.discriminative import by_word, word_drops

WORDS = ("the", "red", "dog", "runs")
MEANING = {word: row for word, row in zip(WORDS, np.eye(4), strict=True)}


def bag(captions):
    """Unit sums of the words' meanings; unknown words mean nothing."""
    rows = np.array([sum(MEANING.get(w, np.zeros(4)) for w in words) for words in captions])
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


BAG = SimpleNamespace(embed_texts=bag, knows=MEANING.__contains__)


def table(*captions):
    rows = [(f"c{n}", f"im{n // 2}", text.split()) for n, text in enumerate(captions)]
    return pd.DataFrame(rows, columns=["caption_id", "image_id", "tokens"])


def looped(embedder, captions, images):
    """(caption, position, score, drop) one embedding at a time."""
    rows = []
    for number, words in enumerate(captions["tokens"]):
        known = [n for n, word in enumerate(words) if embedder.knows(word)]
        whole = float(embedder.embed_texts([words])[0] @ images[number])
        for place in known if len(known) > 1 else []:
            shorter = words[:place] + words[place + 1 :]
            drop = whole - float(embedder.embed_texts([shorter])[0] @ images[number])
            rows.append((f"c{number}", place, whole, drop))
    return rows


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.sampled_from([*WORDS, "zebra"]), min_size=1, max_size=6), min_size=1),
    st.integers(1, 5),
)
def test_against_a_loop_in_blocks_of_any_size(captions, block):
    captions = table(*map(" ".join, captions))
    images = np.random.default_rng(0).normal(size=(len(captions), 4))
    expected = looped(BAG, captions, images)
    if not expected:
        with pytest.raises(WorkbenchError, match="two words that the model knows"):
            word_drops(BAG, captions, images, block)
        return
    found = word_drops(BAG, captions, images, block)
    assert found["caption_id"].tolist() == [row[0] for row in expected]
    assert found["position"].tolist() == [row[1] for row in expected]
    np.testing.assert_allclose(found[["score", "drop"]], [row[2:] for row in expected], atol=1e-12)


def test_the_word_that_only_the_image_shows_is_found():
    """The image is what `red dog` means; `the` is in its way."""
    images = np.repeat(bag([["red", "dog"]]), 3, axis=0)
    captions = table("the red dog", "dog the zebra red", "dog")
    drops = word_drops(BAG, captions, images)
    assert drops["word"].tolist() == ["the", "red", "dog", "dog", "the", "red"]
    assert drops["image_id"].tolist() == ["im0"] * 6
    assert drops["position"].tolist() == [0, 1, 2, 0, 1, 3]
    assert (drops["drop"][drops["word"] == "the"] < 0).all()
    assert drops["place"].tolist() == [3, 1, 2, 1, 3, 2]


def test_words_by_their_mean_drop():
    """The last column: the share of times among the three largest drops."""
    rows = [("a", 0.5, 1), ("a", 0.1, 4), ("b", 0.3, 2), ("b", 0.3, 3), ("c", -1.0, 5)]
    drops = pd.DataFrame(rows, columns=["word", "drop", "place"])
    found = list(by_word(drops).itertuples(index=False, name=None))
    assert [row[:2] for row in found] == [("a", 2), ("b", 2), ("c", 1)]
    expected = [(0.3, 0.2, 0.5), (0.3, 0, 1), (-1, 0, 0)]
    np.testing.assert_allclose([row[2:] for row in found], expected, atol=1e-12)


def test_only_real_drops_are_marked():
    images = np.repeat(bag([["red", "dog"]]), 2, axis=0)
    captions = table("the red dog runs", "the dog the runs zebra")
    lines = list(example_lines(captions, word_drops(BAG, captions, images)))
    assert [line.split("  ")[1] for line in lines] == [
        "the *red* *dog* runs",
        "the *dog* the runs zebra",
    ]
