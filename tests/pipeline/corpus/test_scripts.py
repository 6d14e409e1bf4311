import pandas as pd
import pytest

from pipeline.corpus.scripts import describe_captions, scripts_of
from pipeline.corpus.tokens import tokenise


def lines(*texts, tokens=None):
    words = tokens or list(map(tokenise, texts))
    return describe_captions(pd.DataFrame({"text": texts, "tokens": words}))


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("A dog's 2 balls", "Latin script"),
        ("दो बच्चे", "Devanagari script"),
        ("一只dog", "Latin 60 %, Han 40 %"),
        ("犬がボールで", "Katakana 50 %, Hiragana 33 %, Han 17 %"),
        ("ศาลา", "Thai script"),
        ("ក", "Khmer script"),
        ("개", "Hangul script"),
        ("كلب", "Arabic script"),
        ("12 !", "no letters"),
        ("a" * 100 + "я", "Latin script"),  # one letter of a hundred and one
    ],
)
def test_scripts_are_named_by_their_share_of_letters(text, scripts):
    assert scripts_of([text]) == scripts


def test_words_per_caption_are_counted_without_a_warning():
    assert lines("A dog.", "Un chien noir court.") == ["captions: Latin script, 3.0 words each"]
    chinese = ["一个男孩在河边看着一只黑狗"] * 2
    assert lines(*chinese) == [
        "captions: Han script, 13.0 words each; a character is a word where a script has no blanks"
    ]


def test_long_captions_of_one_word_are_named():
    run_together = "AredKiteOverTheYellowBeach"
    first, second = lines(run_together, "a dog", "dog")
    assert first == "captions: Latin script, 1.3 words each"
    assert second == (
        "warning: 1 of 3 captions of one word each although long, such as "
        "'AredKiteOverTheYellowBeach': words are cut at blanks, so write blanks between them"
    )
    assert len(lines(run_together, *["a dog"] * 10)) == 1  # one caption of eleven may be a name
    assert len(lines("dog", "cat")) == 1  # names of what is seen


def test_words_of_one_letter_are_named():
    texts = ["द ो ब च ् च", "a dog"]
    assert lines(*texts, tokens=[["द", "ब", "च", "च"], ["a", "dog"]])[1:2] == [
        "warning: 5 of 6 words are one letter: "
        "look whether the captions' words are whole in the files"
    ]
    assert len(lines("一 只 狗", "I saw a dog", "2 3 4 5 dogs")) == 1


@pytest.mark.parametrize("damaged", ["ein groÃŸer Hund", "\u00c3\u00a0 la mer", "un gar\ufffdon"])
def test_letters_of_a_wrong_encoding_are_named(damaged):
    _, second = lines("ein Hund", damaged)
    assert second.startswith("warning: 1 of 2 captions with letters that were read in a wrong enc")
    assert f"such as {damaged!r}: get the files again" in second
    assert len(lines("größer", "CAFÉ®", *["a dog"] * 199)) == 1  # rare: it may be meant


def test_words_of_the_files_that_queries_will_not_have_are_named():
    _, second = lines("一只黑狗", "两只猫", tokens=[["一只", "黑狗"], ["两", "只", "猫"]])
    assert second == (
        "warning: 1 of 2 captions have words in the files that a query will not have: "
        "'一只 黑狗', not '一 只 黑 狗'; without `tokens` in the files, words are cut as in queries"
    )
    few = ["a t-shirt", *["a dog"] * 9]
    assert len(lines(*few, tokens=[["a", "tshirt"], *[["a", "dog"]] * 9])) == 1
