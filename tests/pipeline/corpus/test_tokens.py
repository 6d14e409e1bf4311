import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.tokens import tokenise

MINI = Path(__file__).resolve().parents[4] / "shared" / "flickr8k-mini"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("A dog , a cat .", ["a", "dog", "a", "cat"]),
        ("Snow-covered T-shirts", ["snow", "covered", "t", "shirts"]),
        ("a person 's arms", ["a", "person", "'s", "arms"]),
        ("the dog's 2 toys_and", ["the", "dog", "'s", "2", "toys", "and"]),
        ("the dog\u2019s", ["the", "dog", "'s"]),
        ("Cafe\u0301 ÜBER", ["caf\u00e9", "über"]),
        (" .,;!\n\t-- ' ", []),
    ],
)
def test_words(text, tokens):
    assert tokenise(text) == tokens


@given(st.text())
def test_words_are_lower_case_without_space_and_stable(text):
    words = tokenise(text)
    assert all(word and word == word.lower() and not any(map(str.isspace, word)) for word in words)
    assert tokenise(" ".join(words)) == words


@pytest.mark.skipif(not MINI.is_dir(), reason="no real photographs beside the repository")
def test_agrees_with_karpathys_tokens():
    records = json.loads((MINI / "dataset_flickr8k.json").read_text())["images"]
    sentences = [sentence for record in records for sentence in record["sentences"]]
    equal = sum(tokenise(sentence["raw"]) == sentence["tokens"] for sentence in sentences)
    assert len(sentences) == 5000
    assert equal / len(sentences) > 0.999
