"""Writing feature files, at once or over hours: what was flushed survives a kill.

Rows go into a preallocated work file outside DVC's outputs, named after a fingerprint of all that
the values depend on. The HDF5 structure is complete before the first row, and rows are written in
place, so a kill cannot break it; a mask beside it says which rows are there, each with a checksum.
"""

import errno
import fcntl
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np
import numpy.typing as npt

from pipeline.runtime.disk import written
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import atomic_path, publish
from pipeline.runtime.process import say
from pipeline.storage.hdf5 import Layout, damaged, mapped, opened, read_attributes, read_layouts
from pipeline.storage.layout import (
    Array,
    Attributes,
    Datasets,
    checked,
    digest_of,
    encode_ids,
    seal,
    stored_attributes,
    structure_of,
)
from pipeline.storage.structure import Structure, raw, write_at
from pipeline.storage.written_rows import WrittenRows


def write_features(
    path: Path | str, ids: Sequence[str], arrays: Mapping[str, Array], attributes: Attributes
) -> None:
    """Write a feature file at once, atomically.

    Args:
        path: of the file, .h5.
        ids: N different names.
        arrays: dataset name -> (N, ...) finite numbers, written in their own dtype.
        attributes: what the file was made from.

    Raises:
        WorkbenchError: unusable ids, lengths that differ from N, values that are not finite.
    """
    encoded = encode_ids(ids)
    for name, array in arrays.items():
        if array.ndim == 0 or len(array) != len(ids):
            raise WorkbenchError(f"{name}: shape {array.shape} does not fit {len(ids):,} ids")
    datasets = {name: (array.shape[1:], array.dtype) for name, array in arrays.items()}
    digests = {"ids": digest_of(encoded)}
    size = encoded.nbytes + sum(array.nbytes for array in arrays.values())
    with atomic_path(path, size) as temporary:
        structure = structure_of(encoded, datasets, attributes)
        structure.begin(temporary)
        structure.put(temporary, {"ids": encoded})
        for name, array in arrays.items():
            values = checked(f"{path}, {name}", array, structure.layouts[name].dtype, ids)
            structure.put(temporary, {name: values})
            digests[name] = digest_of(values)
        seal(temporary, encoded, datasets, attributes, digests)


class FeatureWriter:
    """A feature file in the making that continues where an earlier, killed process stopped.

    Use as a context manager: leaving it keeps the work.

    Args:
        work: folder for unfinished files, with one writer at a time.
        fingerprint: digest of all that the values depend on.
        ids: N different names.
        datasets: name -> (shape of one row, dtype).
        attributes: what the file is made from.
        flush_seconds: how many seconds of work a power cut may cost.

    Raises:
        WorkbenchError: another process writes into `work`.
    """

    def __init__(
        self,
        work: Path,
        fingerprint: str,
        ids: Sequence[str],
        datasets: Datasets,
        attributes: Attributes,
        flush_seconds: float = 5.0,
    ) -> None:
        self.ids, self.datasets, self.attributes = ids, datasets, attributes
        self.path = work / f"{fingerprint}.h5"
        self._mask = WrittenRows(work / f"{fingerprint}.mask", len(ids))
        self.flush_seconds = flush_seconds
        self._encoded = encode_ids(ids)
        work.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(work / "lock")
        with written(self.path):
            structure = structure_of(self._encoded, datasets, attributes)
        self._places = structure.layouts
        if not self._resumes():
            self._begin(structure)
        self._handle = open(self.path, "rb+")  # noqa: SIM115 - closed by close()
        self._flushed = time.monotonic()

    @property
    def missing(self) -> npt.NDArray[np.int64]:
        """Row numbers not yet written, ascending."""
        return self._mask.missing

    def write(self, rows: npt.ArrayLike, **arrays: Array) -> None:
        """Write some rows of every dataset.

        Args:
            rows: (B,) integers in [0, N).
            **arrays: dataset name -> (B, ...) values, converted to the dataset's dtype.

        Raises:
            WorkbenchError: values that are not finite or do not fit.
        """
        chosen = np.asarray(rows, dtype=np.int64)
        if set(arrays) != set(self.datasets):
            raise ValueError(f"got {sorted(arrays)}; the datasets are {sorted(self.datasets)}")
        names, written_values = [self.ids[row] for row in chosen], []
        for name in self.datasets:
            values, place = arrays[name], self._places[name]
            if values.shape != (len(chosen), *place.shape[1:]):
                raise ValueError(f"{name}: {values.shape} for {len(chosen)} of {place.shape}")
            stored = checked(name, values, place.dtype, names)
            with written(self.path):
                _put(self._handle, place.offset, chosen, stored)
            written_values.append(stored)
        self._mask.mark(chosen, written_values)
        if time.monotonic() - self._flushed >= self.flush_seconds:
            self.flush()

    def flush(self) -> None:
        """Make the rows written so far survive a kill or power cut: data first, then the mask."""
        with written(self.path):
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
        with written(self.path):
            own = {"ids": digest_of(self._encoded)}
            seal(self.path, self._encoded, self.datasets, self.attributes, own)
        _move(self.path, Path(output))
        self._mask.path.unlink()

    def close(self) -> None:
        """Keep unfinished rows for the next run and let other writers in."""
        if not self._handle.closed:
            self.flush()
            self._handle.close()
        self._lock.close()

    def __enter__(self) -> "FeatureWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _resumes(self) -> bool:
        """Whether unfinished work is there and can be continued; if it cannot that is said."""
        if not self.path.is_file():
            return False
        try:
            self._check_structure()
            self._mask.load()
        except WorkbenchError as error:
            say(f"unfinished work cannot be continued and is begun again: {error.message}")
            return False
        bad = self._mask.drop_damaged(self.path, self._places, list(self.datasets))
        if bad:
            say(f"{self.path}: {bad:,} rows of unfinished work are damaged and are made again")
        return True

    def _begin(self, structure: Structure) -> None:
        self._mask.path.unlink(missing_ok=True)
        with atomic_path(self.path, self._size()) as temporary:
            structure.begin(temporary)
            structure.put(temporary, {"ids": self._encoded})

    def _size(self) -> int:
        """Bytes of all values that the file will hold."""
        rows = (math.prod(row) * np.dtype(kind).itemsize for row, kind in self.datasets.values())
        return self._encoded.nbytes + len(self.ids) * sum(rows)

    def _check_structure(self) -> None:
        """Raise WorkbenchError unless the work file has the structure this run would create."""
        with opened(self.path) as file:
            found, places = read_attributes(file), read_layouts(file, self.path)
        found.pop("sha256", None)
        same = _told(places) == _told(self._places)
        if not same or found != stored_attributes(self.attributes):
            raise damaged(self.path, "its structure is not the one this run writes")
        if not np.array_equal(mapped(self.path, places["ids"]), self._encoded):
            raise damaged(self.path, "its ids are not those of this run")


def _told(layouts: Mapping[str, Layout]) -> dict[str, tuple[object, ...]]:
    return {name: (x.shape, x.dtype, x.offset) for name, x in layouts.items()}


def _put(handle: IO[bytes], offset: int, rows: npt.NDArray[np.int64], values: Array) -> None:
    """Write rows of a dataset in place, each run of consecutive rows at once."""
    if values.size == 0:
        return
    row_bytes = values[0].nbytes
    starts = np.flatnonzero(np.diff(rows, prepend=rows[0] - 2) != 1)
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        # Past the buffer, which would be flushed for every run: rows may come in any order.
        write_at(handle.fileno(), raw(values[start:stop]), offset + int(rows[start]) * row_bytes)


def _lock(path: Path) -> IO[bytes]:
    # A record lock, not flock: decode workers must not keep it when their parent is killed.
    handle = open(path, "ab")  # noqa: SIM115 - held as long as the writer lives
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        raise WorkbenchError(
            f"{path.parent}: another process is writing features there",
            "wait until it is done, or stop it; its finished rows are kept",
        ) from None
    return handle


def _move(finished: Path, output: Path) -> None:
    try:
        publish(finished, output)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with atomic_path(output) as temporary:
            shutil.copyfile(finished, temporary)
        finished.unlink()
