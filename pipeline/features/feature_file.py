"""The feature file: `ids` and datasets with a row for each, in HDF5, with a digest over all.

`FeatureFile` reads one, `write_features` writes one at once, and `FeatureWriter` writes one over
hours and continues where an earlier, killed process stopped. All three give and take the same
bytes. How they lie in the file says `pipeline.features.layout`.

The structure of an unfinished file is complete before its first row, and rows are written in place,
so that a kill cannot break it. A mask beside it (`WrittenRows`) says which rows are there, each
with a checksum; rows that a power cut or a bad disk has damaged are made again.
"""

import errno
import hashlib
import os
import shutil
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from pipeline.features.hdf5 import (
    Layout,
    damaged,
    mapped,
    opened,
    read_attributes,
    read_layouts,
    stored_digest,
    verify,
)
from pipeline.features.layout import (
    Array,
    Attributes,
    Datasets,
    Structure,
    array_digest,
    bytes_of,
    cast_finite,
    check_version,
    encode_ids,
    feature_structure,
    take_digest,
    write_at,
)
from pipeline.runtime.disk import translating_write_errors
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import atomic_path, publish, write_bytes
from pipeline.runtime.process import say

IMPORTED = "imported from "  # begins the attribute `model` of what was made elsewhere

FLUSH_SECONDS = 5.0  # of work that a power cut may cost
DIGEST_BYTES = 32
WRITTEN = 1 << 32  # beside the 32 bits of a checksum
UNKNOWN = -1  # in place of a checksum
CHECKED_ROWS = 256  # read at once

Rows = npt.NDArray[np.int64]  # row numbers


class OtherBytes(Exception):
    """A row was computed once more, and its bytes are not those that it had."""


class FeatureFile:
    """A feature file: rows by id, random batches, or a whole dataset in memory.

    Values are read when asked for, through a memory map that every process opens for itself.

    Args:
        path: the file.

    Attributes:
        ids: N ids, in the order of the rows.
        attributes: what the file says of its content, such as `model` and `corpus_sha256`.
        layouts: where the datasets lie, by name.
        sha256: digest over the content.

    Raises:
        WorkbenchError: for a file that is missing, damaged or no feature file.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        with opened(self.path) as file:
            self.attributes = read_attributes(file)
            check_version(self.path, self.attributes)
            self.layouts = read_layouts(file, self.path)
        self._check_shapes()
        self.sha256 = take_digest(self.path, self.attributes, self.layouts)
        self._values: dict[str, Array] = {}
        try:
            self.ids: list[str] = [name.decode() for name in self.load("ids").tolist()]
        except UnicodeDecodeError:
            raise damaged(self.path, "ids are not UTF-8 text") from None
        self._row_of = {name: row for row, name in enumerate(self.ids)}
        if len(self._row_of) != len(self.ids):
            raise damaged(self.path, "some ids occur more than once")

    def __len__(self) -> int:
        return len(self.ids)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_values": {}}

    def shape(self, name: str = "features") -> tuple[int, ...]:
        """(N, ...) of a dataset; WorkbenchError naming those there are when it is missing."""
        return self._layout(name).shape

    def dtype(self, name: str = "features") -> np.dtype[Any]:
        """The type of a dataset's values; WorkbenchError when it is missing."""
        return self._layout(name).dtype

    def rows(self, ids: Sequence[str]) -> Rows:
        """(B,) row numbers of B ids; WorkbenchError naming those that the file does not have."""
        missing = [name for name in ids if name not in self._row_of]
        if missing:
            origin = ", ".join(
                f"{key} {str(self.attributes[key])[:12]}"
                for key in ("model", "corpus_sha256")
                if key in self.attributes
            )
            raise WorkbenchError(
                f"{self.path}: no row for {listing(missing, 3)}; "
                f"it has {len(self):,} ids, built from {origin or 'an unnamed source'}",
                "the file belongs to another corpus; bring it up to date with: dvc repro",
            )
        return np.fromiter((self._row_of[name] for name in ids), np.int64, len(ids))

    def read(self, rows: npt.ArrayLike, name: str = "features") -> Array:
        """A copy of some rows.

        Args:
            rows: (B,) row numbers, in any order, also repeated.
            name: of the dataset.

        Returns:
            (B, ...) in the order asked for; the digest is not checked.

        Raises:
            WorkbenchError: where there is no such dataset.
            IndexError: where a row is beyond the last.
        """
        if name not in self._values:
            self._values[name] = mapped(self.path, self._layout(name))
        return np.asarray(self._values[name][np.asarray(rows, dtype=np.int64)])

    def load(self, name: str = "features") -> Array:
        """(N, ...) a whole dataset in memory, checked against its digest."""
        self.verify(name)
        return np.array(mapped(self.path, self._layout(name)))

    def in_memory(self, budget_bytes: int, name: str = "features") -> bool:
        """Hold a dataset in memory where it fits: `read` answers from there from now on.

        Args:
            budget_bytes: the most that it may take.
            name: of the dataset.

        Returns:
            Whether it fits.

        Raises:
            WorkbenchError: where it fits and does not have its digest.
        """
        if self._layout(name).nbytes > budget_bytes:
            return False
        self._values[name] = self.load(name)
        return True

    def verify(self, name: str) -> None:
        """Raise WorkbenchError, naming file and dataset, unless its bytes match their digest."""
        verify(self.path, self._layout(name))

    def _layout(self, name: str) -> Layout:
        if name not in self.layouts:
            raise WorkbenchError(
                f"{self.path}: no dataset {name!r}; it has {listing(self.layouts)}"
            )
        return self.layouts[name]

    def _check_shapes(self) -> None:
        ids = self.layouts.get("ids")
        if ids is None or ids.dtype.kind != "S":
            raise WorkbenchError(f"{self.path}: not a feature file: no dataset of text ids")
        counts = {layout.shape[:1] for layout in self.layouts.values()}
        if len(counts) != 1 or len(ids.shape) != 1:
            shapes = listing(f"{name} {layout.shape}" for name, layout in self.layouts.items())
            raise damaged(self.path, f"datasets differ in their number of rows: {shapes}")


def write_features(
    path: Path | str, ids: Sequence[str], arrays: Mapping[str, Array], attributes: Attributes
) -> None:
    """Write a feature file at once, atomically.

    Args:
        path: of the file.
        ids: N names of the rows, all different.
        arrays: (N, ...) finite numbers by the name of their dataset, written in their own type.
        attributes: what the file says of its content.

    Raises:
        WorkbenchError: for an array of another number of rows, ids that repeat or cannot be stored,
            numbers that are not finite, and for a disk without room.
    """
    values = {"ids": encode_ids(ids)}
    for name, array in arrays.items():
        if array.ndim == 0 or len(array) != len(ids):
            raise WorkbenchError(f"{name}: shape {array.shape} does not fit {len(ids):,} ids")
        values[name] = cast_finite(f"{path}, {name}", array, array.dtype, ids)
    datasets = {name: (array.shape[1:], array.dtype) for name, array in arrays.items()}
    digests = {name: array_digest(array) for name, array in values.items()}
    with atomic_path(path, sum(array.nbytes for array in values.values())) as temporary:
        structure = feature_structure(values["ids"], datasets, attributes, digests)
        structure.create(temporary)
        structure.write(temporary, values)
        file = FeatureFile(temporary)
        for name in file.layouts:
            file.verify(name)


class FeatureWriter:
    """A feature file in the making that continues where an earlier, killed process stopped.

    Leaving its context keeps the work; the lock of its command keeps others out.

    Args:
        work: folder of unfinished work.
        fingerprint: digest of all that the values depend on, which names the unfinished file.
        ids: N names of the rows, all different.
        datasets: shape of a row and type of each, by name.
        attributes: what the file says of its content.
        flush_seconds: of work that a power cut may cost.

    Raises:
        WorkbenchError: for ids, datasets and attributes that cannot be stored, and for a disk
            without room.
    """

    def __init__(
        self,
        work: Path,
        fingerprint: str,
        ids: Sequence[str],
        datasets: Datasets,
        attributes: Attributes,
        flush_seconds: float = FLUSH_SECONDS,
    ) -> None:
        self.ids = ids
        self.datasets = datasets
        self.attributes = attributes
        self.path = work / f"{fingerprint}.h5"
        self.flush_seconds = flush_seconds
        self._mask = WrittenRows(work / f"{fingerprint}.mask", len(ids))
        self._encoded_ids = encode_ids(ids)
        work.mkdir(parents=True, exist_ok=True)
        with translating_write_errors(self.path):
            structure = feature_structure(self._encoded_ids, datasets, attributes)
        self._layouts = structure.layouts
        if not self._resume(structure):
            self._begin(structure)
        self._handle = open(self.path, "rb+")  # noqa: SIM115 - closed by close()
        self._flushed = time.monotonic()
        self._expected = np.full(len(ids), UNKNOWN)
        self._packed: list[Rows] | None = None

    @property
    def missing(self) -> Rows:
        """Row numbers not yet written, ascending."""
        return self._mask.missing

    @property
    def checksums(self) -> Rows:
        """(N,) CRC-32 of every row, once none is missing."""
        return self._mask.checksums

    def batches(self, size: int) -> list[Rows]:
        """The rows to compute together, batch by batch, until none is missing.

        Args:
            size: rows of a batch.

        Returns:
            The row numbers of each: batches with fixed boundaries, or those given to `expect`.
        """
        if self._packed is not None:
            return self._packed
        return whole_batches(self.missing, size, len(self.ids))

    def expect(self, rows: Rows, checksums: Rows, batches: list[Rows]) -> None:
        """Refuse other bytes for some rows from now on.

        Args:
            rows: (B,) their numbers.
            checksums: (B,) CRC-32 of each.
            batches: what `batches` gives from now on.
        """
        self._expected[rows] = checksums
        self._packed = batches

    def start_again(self) -> None:
        """Expect nothing, and take all rows for missing."""
        self._expected[:] = UNKNOWN
        self._packed = None
        self._mask.clear()

    def write(self, rows: npt.ArrayLike, **arrays: Array) -> None:
        """Write some rows.

        Args:
            rows: (B,) row numbers, in any order.
            arrays: (B, ...) finite values by the name of their dataset, converted to its type.

        Raises:
            ValueError: for arrays of another shape.
            OtherBytes: for a row that does not have the bytes that are expected of it.
            WorkbenchError: for values that are not finite or that the type cannot hold.
        """
        chosen = np.asarray(rows, dtype=np.int64)
        names = [self.ids[row] for row in chosen.tolist()]
        stored = {}
        for name in self.datasets:
            values = arrays[name]
            layout = self._layouts[name]
            if values.shape != (len(chosen), *layout.shape[1:]):
                raise ValueError(f"{name}: {values.shape} for {len(chosen)} of {layout.shape}")
            stored[name] = cast_finite(name, values, layout.dtype, names)
        checksums = row_checksums(list(stored.values()))
        expected = self._expected[chosen]
        if ((expected != UNKNOWN) & (expected != checksums)).any():
            raise OtherBytes
        for name, values in stored.items():
            with translating_write_errors(self.path):
                _write_rows(self._handle, self._layouts[name].offset, chosen, values)
        self._mask.mark(chosen, checksums)
        if time.monotonic() - self._flushed >= self.flush_seconds:
            self.flush()

    def flush(self) -> None:
        """Make the rows written so far survive a kill or power cut: data first, then the mask."""
        with translating_write_errors(self.path):
            self._handle.flush()
            os.fsync(self._handle.fileno())
        self._mask.save()
        self._flushed = time.monotonic()

    def finish(self, output: Path | str) -> None:
        """Seal the file with its digests and move it to `output`; all rows must be written."""
        if self.missing.size:
            raise ValueError(f"{self.missing.size} of {len(self.ids)} rows are not written")
        self.flush()
        self._handle.close()
        with translating_write_errors(self.path):
            digests = {name: stored_digest(self.path, x) for name, x in self._layouts.items()}
            sealed = feature_structure(self._encoded_ids, self.datasets, self.attributes, digests)
            sealed.write(self.path, {})
        FeatureFile(self.path)  # raises unless the header can be read back
        _move(self.path, Path(output))
        self._mask.path.unlink()

    def close(self) -> None:
        """Keep unfinished rows for the next run."""
        if not self._handle.closed:
            self.flush()
            self._handle.close()

    def __enter__(self) -> "FeatureWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _resume(self, structure: Structure) -> bool:
        """Whether there is unfinished work that can be continued; says so if it cannot. Everything
        but the rows is written again, and the rows have checksums: a damaged file, or one that was
        killed while it was sealed, has no other traces."""
        if not self.path.is_file():
            return False
        try:
            if self.path.stat().st_size != structure.size:
                raise damaged(self.path, "its size is not that of the file this run writes")
            self._mask.load()
        except WorkbenchError as error:
            say(f"unfinished work cannot be continued and is begun again: {error.message}")
            return False
        with translating_write_errors(self.path):
            structure.write(self.path, {"ids": self._encoded_ids})
        bad = self._mask.drop_damaged(self.path, [self._layouts[name] for name in self.datasets])
        if bad:
            say(f"{self.path}: {bad:,} rows of unfinished work are damaged and are made again")
        return True

    def _begin(self, structure: Structure) -> None:
        self._mask.path.unlink(missing_ok=True)
        with atomic_path(self.path, structure.size) as temporary:
            structure.create(temporary)
            structure.write(temporary, {"ids": self._encoded_ids})


class WrittenRows:
    """Which rows of an unfinished file are written, with a CRC-32 of each: the mask.

    Args:
        path: of the file that keeps the mask, with a digest of its own.
        count: N, rows of the unfinished file.
    """

    def __init__(self, path: Path, count: int) -> None:
        self.path = path
        self._marks = np.zeros(count, np.int64)  # 0, or WRITTEN with a checksum

    @property
    def missing(self) -> Rows:
        """Row numbers that are not marked, ascending."""
        return np.flatnonzero(self._marks == 0)

    @property
    def checksums(self) -> Rows:
        """(N,) CRC-32 of every row, once all are marked."""
        return self._marks & ~WRITTEN

    def mark(self, rows: Rows, checksums: Rows) -> None:
        """Note that rows are written.

        Args:
            rows: (B,) row numbers.
            checksums: (B,) CRC-32 of each, as `row_checksums` gives it.
        """
        self._marks[rows] = WRITTEN | checksums

    def clear(self) -> None:
        """Note that no row is written."""
        self._marks[:] = 0

    def save(self) -> None:
        """Make what is marked survive a kill."""
        content = self._marks.astype("<i8").tobytes()
        write_bytes(self.path, hashlib.sha256(content).digest() + content)

    def load(self) -> None:
        """Take over what the file says; WorkbenchError when it is damaged, nothing without one."""
        if not self.path.is_file():
            return
        content = self.path.read_bytes()
        digest = content[:DIGEST_BYTES]
        marks = content[DIGEST_BYTES:]
        fits = len(marks) == 8 * len(self._marks)
        if not fits or hashlib.sha256(marks).digest() != digest:
            raise damaged(self.path, f"not a mask of {len(self._marks):,} rows")
        self._marks = np.frombuffer(marks, "<i8").astype(np.int64)

    def drop_damaged(self, path: Path, layouts: Sequence[Layout]) -> int:
        """Take back the marks of rows that do not have their checksum.

        Args:
            path: the unfinished file.
            layouts: where its datasets lie, in their order.

        Returns:
            How many rows are damaged.
        """
        values = [mapped(path, layout) for layout in layouts]
        marked = np.flatnonzero(self._marks)
        dropped = 0
        for start in range(0, len(marked), CHECKED_ROWS):
            rows = marked[start : start + CHECKED_ROWS]
            sums = row_checksums([np.ascontiguousarray(array[rows]) for array in values])
            bad = rows[WRITTEN | sums != self._marks[rows]]
            self._marks[bad] = 0
            dropped += len(bad)
        return dropped


def whole_batches(missing: Rows, size: int, count: int) -> list[Rows]:
    """The batches that hold any of some missing rows, whole, with fixed boundaries.

    Args:
        missing: row numbers, int64, in [0, count).
        size: rows of a batch.
        count: of all rows.

    Returns:
        The row numbers of each batch, (<= size,) int64, ascending.
    """
    starts = (np.unique(missing // size) * size).tolist()
    return [np.arange(start, min(start + size, count)) for start in starts]


def row_checksums(values: Sequence[Array]) -> Rows:
    """(B,) CRC-32 of every row over all datasets. values: (B, ...) contiguous each."""
    sums = [0] * len(values[0])
    for array in values:
        content = bytes_of(array)
        size = len(content) // max(len(sums), 1)
        for row in range(len(sums)):
            sums[row] = zlib.crc32(content[row * size : (row + 1) * size], sums[row])
    return np.array(sums, np.int64)


def _write_rows(handle: IO[bytes], offset: int, rows: Rows, values: Array) -> None:
    """Write rows of a dataset, which begins at `offset`, each run of consecutive rows at once."""
    if values.size == 0:
        return
    row_bytes = values[0].nbytes
    starts = np.flatnonzero(np.diff(rows, prepend=rows[0] - 2) != 1)
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        # Past the buffer, which would be flushed for every run: rows may come in any order.
        write_at(
            handle.fileno(), bytes_of(values[start:stop]), offset + int(rows[start]) * row_bytes
        )


def _move(finished: Path, output: Path) -> None:
    """Give a finished file its name, also on another file system."""
    try:
        publish(finished, output)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with atomic_path(output) as temporary:
            shutil.copyfile(finished, temporary)
        finished.unlink()
