"""What captions are written in, and whether they can have been cut into words rightly."""

import unicodedata
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from pipeline.corpus.tokens import is_character, tokenise
from pipeline.runtime.errors import counted

SMALLEST = 0.01  # share of the letters, of a script that is named
LONG = 20  # characters of a caption that has more than one word in any language
OFTEN = 0.1  # share of captions, from which a fault of the words is spoken of
RARELY = 0.01  # the same for damaged letters; share of words from which characters are spoken of
MOST = 0.5  # share of words of one letter, which no language has
COMPARED = 1000  # captions whose words are cut a second time
SHOWN = 40  # characters of an example
REPLACED = "\ufffd"  # stands for bytes that could not be decoded


def describe_captions(captions: pd.DataFrame) -> list[str]:
    """Lines for the user: scripts and words per caption, then warnings.

    Args:
        captions: M rows with `text` and `tokens`, M > 0.

    Returns:
        One line and, where the words cannot be right, one per fault.
    """
    texts: list[str] = captions["text"].tolist()
    tokens: list[Sequence[str]] = captions["tokens"].tolist()
    lengths = [len(words) for words in tokens]
    total = sum(lengths)
    words = Counter(word for row in tokens for word in row)
    characters = Counter({word: n for word, n in words.items() if is_character(word)})
    line = f"captions: {scripts_of(texts)}, {total / len(lengths):.1f} words each"
    if characters.total() >= RARELY * total:
        line += "; a character is a word where a script has no blanks"
    return [
        line,
        *_single_words(texts, lengths),
        *_single_letters(words - characters),
        *_wrong_encoding(texts),
        *_other_words(texts, tokens),
    ]


def scripts_of(texts: Sequence[str]) -> str:
    """The scripts of the letters, most frequent first: `Latin script`, `Han 96 %, Latin 4 %`."""
    letters: Counter[str] = Counter()
    for text in texts:
        letters.update(text)
    scripts: Counter[str] = Counter()
    for letter, number in letters.items():
        if letter.isalpha():
            scripts[_script(letter)] += number
    total = scripts.total()
    shares = [(name, number / total) for name, number in scripts.most_common()]
    named = [(name, share) for name, share in shares if share >= SMALLEST]
    if not named:
        return "no letters"
    if len(named) == 1:
        return f"{named[0][0]} script"
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in named)


def _script(letter: str) -> str:
    """A letter's script by its name in Unicode, such as `DEVANAGARI LETTER KA`."""
    first = unicodedata.name(letter, "unknown").replace("-", " ").split()[0]
    return "Han" if first == "CJK" else first.capitalize()


def _single_words(texts: Sequence[str], lengths: Sequence[int]) -> list[str]:
    """A warning where long captions are one word each."""
    pairs = zip(texts, lengths, strict=True)
    found = [text for text, length in pairs if length == 1 and len(text) >= LONG]
    if len(found) < OFTEN * len(texts):
        return []
    return [
        f"warning: {_share(found, texts)} of one word each although long, such as "
        f"{_example(found[0])}: words are cut at blanks, so write blanks between them"
    ]


def _single_letters(words: Counter[str]) -> list[str]:
    """A warning where most words are one letter. words: those of scripts with blanks."""
    single = sum(number for word, number in words.items() if len(word) == 1 and word.isalpha())
    total = words.total()
    if single <= MOST * total:
        return []
    return [
        f"warning: {single:,} of {counted(total, 'word')} are one letter: "
        "look whether the captions' words are whole in the files"
    ]


def _wrong_encoding(texts: Sequence[str]) -> list[str]:
    """A warning where texts were decoded as what they are not."""
    found = [text for text in texts if REPLACED in text or _is_misread(text)]
    if not found or len(found) < RARELY * len(texts):
        return []
    return [
        f"warning: {_share(found, texts)} with letters that were read in a wrong encoding, such as "
        f"{_example(found[0])}: get the files again, or write them as UTF-8 from their source"
    ]


def _is_misread(text: str) -> bool:
    """Whether a text is UTF-8 that was read as a Western encoding: `groÃŸ` for `groß`."""
    if text.isascii():
        return False
    for encoding in ("cp1252", "latin-1"):
        try:
            text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
        return True
    return False


def _other_words(texts: Sequence[str], tokens: Sequence[Sequence[str]]) -> list[str]:
    """A warning where the files have words of their own, which a query will not have."""
    rows = list(zip(texts, tokens, strict=True))[:COMPARED]
    found = [(text, list(words)) for text, words in rows if list(words) != tokenise(text)]
    if not found or len(found) <= OFTEN * len(rows):
        return []
    text, words = found[0]
    return [
        f"warning: {_share(found, rows)} have words in the files that a query will not have: "
        f"{_example(' '.join(words))}, not {_example(' '.join(tokenise(text)))}; "
        "without `tokens` in the files, words are cut as in queries"
    ]


def _share(found: Sequence[object], of: Sequence[object]) -> str:
    return f"{len(found):,} of {counted(len(of), 'caption')}"


def _example(text: str) -> str:
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "...")
