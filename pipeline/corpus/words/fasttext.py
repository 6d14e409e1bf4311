"""fastText's own .bin: words, and a table of vectors of words and of parts of words.

Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information". A word's vector is the
mean of its own row and those of its parts, which share rows by a hash. gensim reads such a file
whole (cc.en.300.bin: 7 GB); here it is mapped, and only the rows of wanted words are touched. Sizes
are compared with the file before they are believed.
"""

import mmap
import re
import struct
from collections.abc import Container, Iterator
from pathlib import Path

import numpy as np

from pipeline.corpus.words.sample import WordSample
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress

VERSIONS = (11, 12)
LARGEST_DIM = 10_000
LONGEST_WORD = 2048  # bytes
LONGEST_PART = 100  # characters
HEAD = struct.Struct("<2i12id")  # magic, version, the settings of the training
COUNTS = struct.Struct("<3i2q")  # entries, words, labels, tokens, pruned rows
MATRIX = struct.Struct("<?2q")  # whether it is quantised, rows, columns
# places of settings in HEAD
DIM = 2
BUCKETS = 10
SHORTEST = 11
LONGEST = 12
ENTRY = re.compile(rb"([^\0]{0,%d})\0.{8}([\0\1])" % LONGEST_WORD, re.S)  # word, count, is label
END = "</s>"  # of a sentence; the one word that has no parts
HINT = "download it again; the .vec beside it, as word2vec_text, has the vectors of the same words"
LARGER = "take the .bin that it was made from, or the .vec beside it, as word2vec_text"
STEP = 50_000  # words between two looks at the progress


class FastText:
    """A file of version 11 or 12, as fastText has written it since 2017, neither quantised nor
    pruned; WorkbenchError for others and damaged ones."""

    def __init__(self, path: Path) -> None:
        from gensim.models.fasttext import ft_ngram_hashes  # takes a second to load

        self.path = path
        self._parts_of = ft_ngram_hashes
        with open(path, "rb") as handle:
            self._data = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        head = self._unpacked(HEAD, 0)
        if head[1] not in VERSIONS:
            raise self._damage(f"of version {head[1]}; {VERSIONS[0]} and {VERSIONS[1]} are read")
        self.dim = head[DIM]
        self._buckets = head[BUCKETS]
        self._lengths = (head[SHORTEST], head[LONGEST])
        entries, self.count, labels, _, pruned = self._unpacked(COUNTS, HEAD.size)
        sizes = (self.count, labels, self._buckets, *self._lengths)
        sound = min(sizes) >= 0 and entries == self.count + labels and self.count > 0
        if not (sound and 1 <= self.dim <= LARGEST_DIM and self._lengths[1] <= LONGEST_PART):
            raise self._damage("its sizes are not those of a model")
        if pruned >= 0:
            raise WorkbenchError(f"{path}: a model of fastText, compressed (.ftz)", LARGER)
        self._entries = entries
        self._first = HEAD.size + COUNTS.size
        self._matrix = self._mapped()

    def read(self, wanted: Container[bytes], sample: WordSample) -> dict[bytes, np.ndarray]:
        """The vectors of wanted words. Words are those of the file: parts alone make no vector for
        one that it lacks.

        Args:
            wanted: words by their bytes in UTF-8.
            sample: it is offered the other words.

        Returns:
            A row (dim,) float32 per wanted word that the file has.
        """
        rows: dict[bytes, np.ndarray] = {}
        with Progress(f"reading {self.path.name}", self.count, "words") as progress:
            for index, (word, _) in enumerate(self._words()):
                if index == self.count:  # labels follow
                    break
                if word in wanted and word not in rows:
                    rows[word] = self._row(index, word)
                if index + 1 == sample.next:
                    name = word.decode(errors="surrogateescape")
                    sample.offer(name, self._row(index, word))
                if (index + 1) % STEP == 0:
                    progress.update(STEP)
            progress.update(self.count % STEP)
        return rows

    def _words(self) -> Iterator[tuple[bytes, int]]:
        """Every entry of the dictionary, words before labels, and where it ends."""
        end = self._first
        for number in range(self._entries):
            entry = ENTRY.match(self._data, end)
            if entry is None or entry[2] != (b"\0" if number < self.count else b"\1"):
                raise self._damage(f"entry {number + 1:,} of {self._entries:,} is no word")
            end = entry.end()
            yield entry[1], end

    def _mapped(self) -> np.ndarray:
        """The table (words + buckets, dim) float32 of words and parts, left in the file."""
        end = self._first
        for _, after in self._words():
            end = after
        quantised, rows, columns = self._unpacked(MATRIX, end)
        if quantised:
            raise WorkbenchError(f"{self.path}: a model of fastText, compressed (.ftz)", LARGER)
        start = end + MATRIX.size
        fits = rows == self.count + self._buckets and columns == self.dim
        if not fits or start + 4 * rows * columns > len(self._data):
            raise self._damage(
                f"its table has {rows:,} x {columns:,} numbers for {self.count:,} words and "
                f"{self._buckets:,} parts of {self.dim:,}, or is cut short"
            )
        values = np.frombuffer(self._data, "<f4", rows * columns, start)
        return values.reshape(rows, columns)

    def _row(self, index: int, word: bytes) -> np.ndarray:
        """(dim,) float32, as fastText's get_word_vector gives it."""
        text = word.decode(errors="replace")
        rows = [index]
        if self._buckets and self._lengths[1] and text != END:
            parts = self._parts_of(text, *self._lengths, self._buckets)
            rows += [self.count + part for part in parts]
        return self._matrix[rows].mean(0, dtype=np.float64).astype(np.float32)

    def _unpacked(self, form: struct.Struct, offset: int) -> tuple[int, ...]:
        if offset + form.size > len(self._data):
            raise self._damage("cut short")
        return form.unpack_from(self._data, offset)

    def _damage(self, what: str) -> WorkbenchError:
        return WorkbenchError(f"{self.path}: a model of fastText, {what}", HINT)
