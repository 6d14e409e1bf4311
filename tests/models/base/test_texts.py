"""What a query's words are told about."""

import pytest

from models.base.texts import check_words
from pipeline.runtime.errors import WorkbenchError


def test_unknown_words_are_named_once():
    words, known = ["a", "yak", "dog", "yak"], [True, False, True, False]
    assert check_words(words, known, "it") == ["yak"]
    with pytest.raises(WorkbenchError, match="known to it: a, yak, dog"):
        check_words(words, [False] * 4, "it")
