"""One way to cut captions into words, so that corpora of different sources share a vocabulary."""

import re
import unicodedata

_WORD = re.compile(r"'?[^\W_]+")


def tokenise(text: str) -> list[str]:
    """Lower-cased words of a caption; punctuation is dropped, `'s` stays a word of its own."""
    plain = unicodedata.normalize("NFC", text).replace("\u2019", "'")
    return _WORD.findall(plain.lower())
