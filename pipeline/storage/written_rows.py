"""Which rows of an unfinished file are written, with a CRC-32 of each: damage is made again."""

import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.runtime.files import write_bytes
from pipeline.storage.hdf5 import Layout, damaged, mapped
from pipeline.storage.structure import raw

DIGEST_BYTES = 32
WRITTEN = 1 << 32  # beside the 32 bits of a checksum
BLOCK = 256  # rows looked at together


class WrittenRows:
    """The mask of N rows, which its file keeps with a digest of its own."""

    def __init__(self, path: Path, count: int) -> None:
        self.path = path
        self._marks = np.zeros(count, np.int64)

    @property
    def missing(self) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self._marks == 0)

    def mark(self, rows: npt.NDArray[np.int64], values: Sequence[npt.NDArray[np.generic]]) -> None:
        """Note that rows (B,) are written; values: (B, ...) contiguous, by dataset in order."""
        self._marks[rows] = WRITTEN | checksums(values)

    def save(self) -> None:
        """Make what is marked survive a kill."""
        content = self._marks.astype("<i8").tobytes()
        write_bytes(self.path, hashlib.sha256(content).digest() + content)

    def load(self) -> None:
        """Take over what the file says; WorkbenchError when it is damaged, nothing without one."""
        if not self.path.is_file():
            return
        content = self.path.read_bytes()
        digest, marks = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        fits = len(marks) == 8 * len(self._marks)
        if not fits or hashlib.sha256(marks).digest() != digest:
            raise damaged(self.path, f"not a mask of {len(self._marks):,} rows")
        self._marks = np.frombuffer(marks, "<i8").astype(np.int64)

    def drop_damaged(self, path: Path, layouts: Sequence[Layout]) -> int:
        """Mark rows that do not have their checksum as missing; returns how many."""
        values = [mapped(path, layout) for layout in layouts]
        rows, dropped = np.flatnonzero(self._marks), 0
        for start in range(0, len(rows), BLOCK):
            chosen = rows[start : start + BLOCK]
            sums = checksums([np.ascontiguousarray(array[chosen]) for array in values])
            bad = chosen[WRITTEN | sums != self._marks[chosen]]
            self._marks[bad] = 0
            dropped += len(bad)
        return dropped


def checksums(values: Sequence[npt.NDArray[np.generic]]) -> npt.NDArray[np.int64]:
    """(B,) CRC-32 of every row over all datasets. values: (B, ...) contiguous each."""
    sums = [0] * len(values[0])
    for array in values:
        content = raw(array)
        size = len(content) // max(len(sums), 1)
        for row in range(len(sums)):
            sums[row] = zlib.crc32(content[row * size : (row + 1) * size], sums[row])
    return np.array(sums, np.int64)
