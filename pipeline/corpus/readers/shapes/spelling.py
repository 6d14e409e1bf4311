"""Slips of spelling in captions, each one edit of a word that can still be told from all others."""

import re
from collections.abc import Callable, Set
from itertools import product
from string import ascii_lowercase

import numpy as np

LEAST = 4  # letters of a word that may be misspelt: one edit of "a" or "red" leaves nothing of it
TRIES = 20

_WORD = re.compile(r"[A-Za-z]+")
_EDITS: tuple[Callable[[str, str, str], str], ...] = (  # of what is before a place, and behind it
    lambda before, after, letter: before + after[1:],
    lambda before, after, letter: before + letter + after,
    lambda before, after, letter: before + letter + after[1:],
    lambda before, after, letter: before + after[:2][::-1] + after[2:],
)


def misspell(text: str, share: float, words: Set[str], rng: np.random.Generator) -> str:
    """The text with some of its words of LEAST letters or more misspelt.

    Args:
        text: a caption.
        share: of these words that are misspelt, 0..1.
        words: all that captions may say, in small letters; no slip is one of them, or one edit from
            another.
        rng: what the slips are drawn by.

    Returns:
        The text with as many words as before; a slip keeps a first capital letter.
    """

    def misspelt(match: re.Match[str]) -> str:
        word = match[0]
        if len(word) < LEAST or rng.random() >= share:
            return word
        slip = _slip(word.lower(), words, rng)
        return slip[0].upper() + slip[1:] if word[0].isupper() else slip

    return _WORD.sub(misspelt, text)


def edits(word: str) -> set[str]:
    """All that is one edit from a word: a letter left out, put in, changed, or two exchanged."""
    every = product(_EDITS, range(len(word) + 1), ascii_lowercase)
    return {edit(word[:place], word[place:], letter) for edit, place, letter in every} - {word}


def _slip(word: str, words: Set[str], rng: np.random.Generator) -> str:
    """A word with one edit; the word itself where no edit of some tries can be told from others."""
    for _ in range(TRIES):
        edit = _EDITS[int(rng.integers(len(_EDITS)))]
        place = int(rng.integers(len(word)))
        letter = ascii_lowercase[int(rng.integers(len(ascii_lowercase)))]
        slip = edit(word[:place], word[place:], letter)
        if slip not in words and edits(slip) & words == {word}:
            return slip
    return word
