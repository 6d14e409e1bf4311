import importlib.metadata

import pytest
from commands import refusal
from tiny_wordnet import folder_of

from pipeline.features.sentences import stop_words as stop_words_module
from pipeline.features.sentences.lemmas import lemmatiser
from pipeline.features.sentences.stop_words import FUNCTION_WORDS, stop_words
from pipeline.features.sentences.wordnet import WordNet
from pipeline.runtime.errors import WorkbenchError

NUMBERS = "one two three four five six seven eight nine ten several many both no not"
PLACES = """above below left right under over between on in near behind top bottom front back up
down off out inside outside into onto through across along around against beside next"""
FUNCTIONS = "a the and or he its is are has been will of with by for to from as at 's"


@pytest.mark.parametrize(
    ("word", "lemma"),
    [
        ("hoping", "hoping"),  # a noun; as a verb it would be hop
        ("went", "go"),
        ("larger", "large"),
        ("best", "well"),
        ("zebras", "zebras"),
    ],
)
def test_the_first_part_of_speech_of_wordnet_decides(tmp_path, word, lemma):
    chosen = lemmatiser("wordnet", folder_of(tmp_path))
    assert [chosen.lemma(word), chosen.lemma(word)] == [lemma, lemma]


@pytest.mark.parametrize(
    ("word", "lemma"),
    [
        ("dogs", "dog"),
        ("running", "running"),  # a noun before it is a verb
        ("sat", "sit"),
        ("larger", "large"),
        ("axes", "axe"),  # the first of several
        ("zzyzxing", "zzyzxing"),  # unknown: it does not guess
    ],
)
def test_the_first_part_of_speech_of_lemminflect_decides(word, lemma):
    assert lemmatiser("lemminflect", None).lemma(word) == lemma


def test_provenance_tells_apart_what_decides_about_lemmas(tmp_path):
    wordnet_folder = folder_of(tmp_path)
    first = lemmatiser("wordnet", wordnet_folder).provenance
    assert first == {"name": "wordnet", "sha256": WordNet(wordnet_folder).digest}
    (wordnet_folder / "noun.exc").write_text("mice mouse\n")
    assert lemmatiser("wordnet", wordnet_folder).provenance != first
    version = importlib.metadata.version("lemminflect")
    expected = {"name": "lemminflect", "version": version}
    assert lemmatiser("lemminflect", None).provenance == expected
    assert lemmatiser("none", None).provenance == {"name": "none"}


def test_there_is_no_fallback(tmp_path):
    assert "WordNet's files not found" in refusal(lemmatiser, "wordnet", tmp_path)


def test_function_words_are_no_numbers_and_no_places():
    assert FUNCTION_WORDS.isdisjoint(NUMBERS.split() + PLACES.split())
    assert FUNCTION_WORDS.issuperset(FUNCTIONS.split())
    assert all(word == word.lower().strip() for word in FUNCTION_WORDS)


def test_stop_words_are_chosen_by_name_or_of_a_file(tmp_path):
    assert stop_words("function_words") is FUNCTION_WORDS
    assert stop_words("none") == frozenset()
    path = tmp_path / "stop.txt"
    path.write_bytes("\ufeff# ours\nThe\r\n\n  of  # a comment\nété".encode())
    assert stop_words(str(path)) == {"the", "of", "été"}
    path.write_text("L\u2019\ne\u0301te\u0301\n\u0130le", encoding="utf-8")
    assert stop_words(str(path)) == {"l'", "été", "ile"}  # as words of captions are written


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"the\nof a\n", "line 2: 2 words"),
        (b"the\nof\n\xe9t\xe9\n", "line 3: not UTF-8"),
        (b"# nothing\n\n", "no words"),
        (b"the\n" * 10, "larger than"),
    ],
)
def test_a_bad_list_of_stop_words_is_refused(tmp_path, monkeypatch, content, problem):
    monkeypatch.setattr(stop_words_module, "MAX_BYTES", 39)
    path = tmp_path / "stop.txt"
    path.write_bytes(content)
    with pytest.raises(WorkbenchError, match=problem) as caught:
        stop_words(str(path))
    assert str(path) in caught.value.message
