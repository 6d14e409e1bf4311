"""Two public formats of word vectors, word2vec's .bin and text, read as a stream.

Only the wanted rows and a random sample of the others are kept of published files (GoogleNews: 3
million words, 3.6 GB). Sizes are checked against the file before they are believed.
"""

import bz2
import gzip
import re
import zipfile
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.corpus.words.sample import WordSample
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.first_bytes import kind_of
from pipeline.runtime.process import Progress

BUFFER = 1 << 18  # bytes; more than any word and vector, little enough to stay in the CPU cache
LONGEST_WORD = 2048  # bytes
LONGEST_LINE = 1 << 20  # bytes
LARGEST_DIM = 10_000
HEADER = re.compile(rb"\s*(\d{1,18})\s+(\d{1,18})\s*")
NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
TAB = b"\t"
TABS = "; it is divided by tabs: tr '\\t' ' ' < OLD > NEW makes blanks of them"
HINT = (
    "copy or download it again if it is a file of word2vec (.bin or text), GloVe or fastText; no "
    "other kind is read"
)
PACKED: dict[str, Callable[[Any], Any]] = {
    "gzip": lambda file: gzip.GzipFile(fileobj=file),
    "bzip2": bz2.BZ2File,
}
# What their readers raise for damage, a method that they do not know, and a password.
UNPACKING = (
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)

Rows = dict[str, np.ndarray]


class Stream(ExitStack):
    """A vector file read once, packed or not, with progress; damage is a WorkbenchError.

    Args:
        path: the file.
        member: of a zip archive, the one that is read; empty for a file that is none.
    """

    def __init__(self, path: Path, member: str = "") -> None:
        super().__init__()
        self.path = path
        self.line = 0  # number of lines that have been read
        self.shown = 0  # megabytes in the progress
        self.file = self.enter_context(open(path, "rb"))  # noqa: SIM115
        length = path.stat().st_size
        self.size: int | None = length
        try:
            self.handle: Any = self._opened(member)
        except WorkbenchError:
            self.close()
            raise
        progress = Progress(f"reading {path.name}", -(-length // 10**6), "MB")
        self.progress = self.enter_context(progress)

    def _opened(self, member: str) -> Any:
        """What the bytes of the vectors are read from."""
        kind = kind_of(self.path)
        if member:
            archive = self.enter_context(zipfile.ZipFile(self.file))
            self.size = archive.getinfo(member).file_size
            return self.enter_context(self._unpacked(archive.open, member))
        if kind is None or kind.key not in PACKED:
            return self.file
        self.size = None  # not known before all is unpacked
        return self.enter_context(PACKED[kind.key](self.file))

    def read_into(self, view: memoryview) -> int:
        """Fill a writable view as far as the file goes; how many bytes were written."""
        count = self._unpacked(self.handle.readinto, view)
        self._advance()
        return count

    def readline(self, limit: int = LONGEST_LINE) -> bytes:
        """The next line, empty at the end of the file; one longer than `limit` is an error."""
        line = self._unpacked(self.handle.readline, limit)
        self.line += 1
        if len(line) == limit and not line.endswith(b"\n"):
            raise self.damage(f"line {self.line:,} is longer than {limit:,} bytes")
        if self.line % 10_000 == 0:
            self._advance()
        return line

    def damage(self, what: str) -> WorkbenchError:
        return WorkbenchError(f"{self.path}: {what}", HINT)

    def _unpacked(self, read: Callable[[Any], Any], argument: object) -> Any:
        try:
            return read(argument)
        except UNPACKING as error:
            if isinstance(error, OSError) and error.errno is not None:  # the system's own
                raise
            raise self.damage(f"cannot be decompressed ({error})") from None

    def _advance(self) -> None:
        megabytes = -(-self.file.tell() // 10**6)
        self.progress.update(megabytes - self.shown)
        self.shown = megabytes


def read_binary(stream: Stream, wanted: dict[bytes, str], sample: WordSample) -> tuple[int, Rows]:
    """The wanted rows of word2vec's .bin format: a line `count D`, then per word its bytes, a
    space, D little-endian float32, and in some files a newline.

    Args:
        stream: the file.
        wanted: words by their bytes in UTF-8.
        sample: it is offered the other words.

    Returns:
        D, and a row (D,) float32 per wanted word that is there, of equal words the first.

    Raises:
        WorkbenchError: a damaged file.
    """
    count, dim = _sizes(stream, stream.readline(100), bytes_per_number=4)
    rows: Rows = {}
    for word, chunk, offset in _binary_entries(stream, count, 4 * dim, wanted, sample):
        if wanted[word] not in rows:
            rows[wanted[word]] = np.frombuffer(chunk, "<f4", dim, offset).astype(np.float32)
    return dim, rows


def _binary_entries(
    stream: Stream, count: int, length: int, wanted: Container[bytes], sample: WordSample
) -> Iterator[tuple[bytes, bytearray, int]]:
    """Yield (wanted word, a chunk of the file, where in it the vector's `length` bytes begin), cut
    by one regular expression: a loop over every word would be most of the cost of reading."""
    # The second alternative takes the incomplete entry at the end, so that it is looked at once.
    entry = re.compile(rb"([^ ]*+) (?s:.{%d})|(?s:.+)" % length)
    # One buffer for all: fresh memory for every chunk cost more than cutting it.
    chunk = bytearray(BUFFER)
    filled = 0
    done = 0
    while done < count:
        data = stream.read_into(memoryview(chunk)[filled:])
        filled += data
        words, ends = _complete(
            entry.findall(chunk, 0, filled)[: count - done], chunk, length, filled
        )
        for word, end in zip(words, ends, strict=True):
            key = word.lstrip(b"\n")
            if key in wanted:
                yield key, chunk, end - length
        while (index := sample.next - 1 - done) < len(words):
            name = words[index].lstrip(b"\n").decode(errors="surrogateescape")
            sample.offer(name, np.frombuffer(chunk, "<f4", length // 4, ends[index] - length))
        done += len(words)
        if ends:
            chunk[: filled - ends[-1]] = chunk[ends[-1] : filled]
            filled -= ends[-1]
        endless = chunk.find(b" ", 0, min(filled, LONGEST_WORD)) < 0 and filled >= LONGEST_WORD
        if endless or max(map(len, words), default=0) >= LONGEST_WORD:
            raise stream.damage(f"a word after word {done:,} is longer than {LONGEST_WORD} bytes")
        if not data and done < count:
            raise stream.damage(f"word {done + 1:,} of {count:,} is cut short")
    filled += stream.read_into(memoryview(chunk)[filled:])
    if chunk[:filled].strip(b"\n"):
        raise stream.damage(f"goes on after the {count:,} words that its first line promises")


def _complete(
    words: list[bytes], chunk: bytearray, length: int, filled: int
) -> tuple[list[bytes], list[int]]:
    """The words whose vectors are whole in the chunk, and where each of these ends."""
    ends = list(accumulate([len(word) + 1 + length for word in words]))
    if words and (ends[-1] > filled or chunk[ends[-1] - length - 1] != ord(" ")):
        return words[:-1], ends[:-1]
    return words, ends


def read_text(stream: Stream, wanted: dict[bytes, str], sample: WordSample) -> tuple[int, Rows]:
    """The wanted rows of word2vec's or GloVe's text format. A line per word: the word and D
    numbers, separated by single spaces; word2vec's first line is `count D`, GloVe has none. A word
    may contain spaces (GloVe 840B): the last D fields are the numbers.

    Args:
        stream: the file.
        wanted: words by their bytes in UTF-8.
        sample: it is offered the other words.

    Returns:
        D, and a row (D,) float32 per wanted word that is there, of equal words the first.

    Raises:
        WorkbenchError: a damaged file.
    """
    line = stream.readline().removeprefix(BOM_UTF8)
    count = None
    seen = 0
    rows = Rows()
    if HEADER.fullmatch(line):
        count, dim = _sizes(stream, line, bytes_per_number=2)
        line = stream.readline()
    else:
        dim = _width(stream, line)
    beginnings = {word.split(b" ", 1)[0] for word in wanted}
    for fields in _text_lines(stream, line):
        seen += 1
        sampled = seen == sample.next
        if fields.count(b" ") < dim:
            raise stream.damage(f"line {stream.line:,} has fewer than {dim} numbers after its word")
        if sampled or fields[: fields.find(b" ")] in beginnings:
            word, *numbers = fields.rsplit(b" ", dim)
            if count is None and b" " in word and NUMBER.fullmatch(word.rpartition(b" ")[2]):
                raise stream.damage(f"line {stream.line:,} has more than {dim} numbers")
            if word in wanted and wanted[word] not in rows:
                rows[wanted[word]] = _parsed(stream, numbers)
            if sampled:
                sample.offer(word.decode(errors="surrogateescape"), _parsed(stream, numbers))
    if count not in (None, seen):
        raise stream.damage(f"has {seen:,} words, but its first line promises {count:,}")
    return dim, rows


def _text_lines(stream: Stream, line: bytes) -> Iterator[bytes]:
    """`line` and those after it, without blanks at their ends; empty ones are left out."""
    while line:
        fields = line.rstrip()
        if fields:
            yield fields
        line = stream.readline()


def _parsed(stream: Stream, numbers: list[bytes]) -> np.ndarray:
    """(D,) float32 of the numbers of a line."""
    try:
        if b"_" in b"".join(numbers):  # python would read 1_0 as 10
            raise ValueError("'_' in a number")
        with np.errstate(over="ignore"):  # becomes infinite, which is reported with its word
            return np.array([float(number) for number in numbers]).astype(np.float32)
    except ValueError as error:
        raise stream.damage(f"line {stream.line:,}: {error}") from None


def trailing_numbers(line: bytes) -> int:
    """How many numbers, divided by single blanks, a line has behind its word."""
    fields = reversed(line.rstrip().split(b" ")[1:])
    return sum(1 for _ in takewhile(NUMBER.fullmatch, fields))


def _width(stream: Stream, line: bytes) -> int:
    """How long the vectors are, by the first word's line."""
    dim = trailing_numbers(line)
    if not 1 <= dim <= LARGEST_DIM:
        raise stream.damage(
            f"its first line has {dim} numbers after a word; expected are 'words dimensions', "
            f"or a word and 1 to {LARGEST_DIM:,} numbers{TABS if TAB in line else ''}"
        )
    return dim


def _sizes(stream: Stream, line: bytes, bytes_per_number: int) -> tuple[int, int]:
    """Number of words and dimension in a header, as far as the file can hold them."""
    match = HEADER.fullmatch(line)
    count, dim = (int(match[1]), int(match[2])) if match else (0, 0)
    if count < 1 or not 1 <= dim <= LARGEST_DIM:
        raise stream.damage(
            f"its first line is {line[:40]!r}; expected are the number of words and of "
            f"dimensions (1 to {LARGEST_DIM:,})"
        )
    least = count * (dim * bytes_per_number + 1)
    if stream.size is not None and least > stream.size:
        raise stream.damage(
            f"its first line promises {count:,} words of {dim:,} dimensions, which take "
            f"{least:,} bytes or more; the file has {stream.size:,}"
        )
    return count, dim
