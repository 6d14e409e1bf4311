"""What a cell of a table says: one caption, or several."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.dataset.cells import Text, listed_texts, texts_of


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        (None, []),
        ("A dog.", ["A dog."]),
        ("A dog.\nA cat.", ["A dog.\nA cat."]),
        (["A dog.", None, "A cat."], ["A dog.", "A cat."]),
        ('["A dog.", "A cat."]', ["A dog.", "A cat."]),
        ('["A dog.", null]', ["A dog."]),
        (" ['A dog.', \"A cat's.\"] ", ["A dog.", "A cat's."]),
        ("['A dog.'\n 'A cat.']", ["A dog.", "A cat."]),  # as NumPy writes it
        ("[A dog.]", ["[A dog.]"]),
        ("[]", ["[]"]),
        ("[1, 2]", ["[1, 2]"]),
        ("[['A dog.']]", ["[['A dog.']]"]),
        ("['A dog.', __import__('os')]", ["['A dog.', __import__('os')]"]),
        ("[" * 100_000 + "]", ["[" * 100_000 + "]"]),
        ('[{"raw": "A dog."}, {"caption": "A cat."}]', ["A dog.", "A cat."]),
        ('[{"other": "A dog."}]', ['[{"other": "A dog."}]']),
        ({"raw": "A dog.", "other": 1}, ["A dog."]),
        ({"caption": ["A dog.", "A cat."]}, ["A dog.", "A cat."]),
        ({"raw": None}, []),
        ([{"raw": "A dog."}, {"raw": "A cat."}], ["A dog.", "A cat."]),
    ],
)
def test_the_captions_of_a_cell(cell, texts):
    assert [text.text for text in texts_of(cell)] == texts


def test_lines_are_captions_where_they_are_meant_to_be():
    assert [text.text for text in texts_of("A dog.\n\n A cat.\n", by_line=True)] == [
        "A dog.",
        " A cat.",
    ]
    assert [text.text for text in texts_of(" \n", by_line=True)] == [" \n"]
    assert [text.text for text in texts_of('["A dog.",\n "A"]', by_line=True)] == ["A dog.", "A"]


def test_words_and_numbers_come_with_their_text():
    own = {"raw": "A dog.", "tokens": ["A", "dog"], "sentid": 7, "imgid": 1}
    assert texts_of(own) == [Text("A dog.", ("a", "dog"), "7")]
    lists = {"raw": ["x", "y"], "tokens": [["x"], ["Y", " "]], "sentid": [1, 2]}
    assert texts_of(lists) == [Text("x", ("x",), "1"), Text("y", ("y",), "2")]
    uneven = {"raw": ["x", "y"], "tokens": [["x"]], "sentid": [1]}
    assert texts_of(uneven) == [Text("x"), Text("y")]


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1))
def test_lists_that_are_written_as_text_are_read_back(texts):
    assert listed_texts(json.dumps(texts)) == texts
    assert listed_texts(json.dumps(texts, ensure_ascii=False)) == texts
    assert listed_texts(repr(texts)) == texts


@given(st.text())
def test_any_text_is_some_captions(text):
    assert [own.text for own in texts_of(text)] == (listed_texts(text) or [text])
