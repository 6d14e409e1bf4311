"""Random other words of a vector file: ICA and mixtures are fitted on more words than a corpus has.

Klein et al. 2015 (arXiv:1411.7399) fit theirs on some 300,000 word vectors. Which entries qualify
is only seen as they pass, so a reservoir is kept, which skips ahead to the next entry to look at:
algorithm L of Li 1994, "Reservoir-sampling algorithms of time complexity O(n(1+log(N/n)))".
"""

import math
import re
import sys
from collections.abc import Container
from dataclasses import dataclass

import numpy as np

LONGEST_NAME = 100  # bytes; ids are stored with the width of the longest
NUMBERED = re.compile(r"#\d+")
NEVER = sys.maxsize
STREAM = 1  # keeps these draws apart from others with the same seed


@dataclass(frozen=True)
class Background:
    """N different words that are not in a vocabulary, and their vectors (N, D) float32."""

    names: list[str]
    vectors: np.ndarray


class WordSample:
    """Up to `size` entries of a file, uniform without replacement over those whose word is not
    excluded and whose values are finite. Entries are numbered from 1 in the order of the file;
    `next` is the number of the one that must be offered next.

    Args:
        size: the most entries of the sample; 0: none is ever taken.
        seed: of the choice.
        excluded: words that are not taken.
    """

    def __init__(self, size: int, seed: int, excluded: Container[str] = ()) -> None:
        self.size = size
        self._excluded = excluded
        self.next = 1 if size else NEVER
        self._random = np.random.default_rng([seed, STREAM]).random
        self._share = 1.0  # how probable it is that an entry is taken
        self._entries: list[tuple[int, str]] = []
        self._vectors = np.empty((0, 0), np.float32)

    def offer(self, word: str, vector: np.ndarray) -> None:
        """Offer entry number `next` of the file.

        Args:
            word: its word, with surrogates for what is not UTF-8.
            vector: its (D,) values.
        """
        if word not in self._excluded and np.isfinite(vector).all():
            self._take((self.next, word if _is_name(word) else ""), vector)
        self.next += 1
        if len(self._entries) == self.size:
            self.next += int(math.log(1 - self._random()) / math.log1p(-self._share))

    def result(self, dim: int) -> Background:
        """The sample, (N, dim), not in the order of the file. An entry's name is its word;
        `#<number>` where that is empty, too long, no text, or an earlier one's."""
        names = []
        used = {""}
        for number, word in self._entries:
            names.append(f"#{number}" if word in used else word)
            used.add(word)
        self._vectors.resize((len(names), dim), refcheck=False)
        return Background(names, self._vectors)

    def _take(self, entry: tuple[int, str], vector: np.ndarray) -> None:
        index = len(self._entries)
        if index < self.size:
            self._entries.append(entry)
            if index == len(self._vectors):  # grown in place: a file may have far fewer than `size`
                room = min(self.size, index + max(1024, index // 4))
                self._vectors.resize((room, len(vector)), refcheck=False)
        else:
            index = int(self._random() * self.size)
            self._entries[index] = entry
        self._vectors[index] = vector
        if len(self._entries) == self.size:
            share = self._share * math.exp(math.log(1 - self._random()) / self.size)
            self._share = min(share, math.nextafter(1, 0))


def _is_name(word: str) -> bool:
    """Whether a word can be an id of a file of vectors."""
    try:
        fits = 0 < len(word.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False
    return fits and "\0" not in word and not NUMBERED.fullmatch(word)
