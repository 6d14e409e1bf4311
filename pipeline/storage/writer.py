"""Writing feature files, at once or over hours: what was flushed survives a kill.

The HDF5 structure is complete before the first row, and rows are written in place, so a kill cannot
break it; a mask beside it says which rows are there, each with a checksum.
"""

import errno
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from pipeline.runtime.disk import translating_write_errors
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import atomic_path, publish
from pipeline.runtime.process import say
from pipeline.storage.hdf5 import (
    damaged,
    mapped,
    opened,
    read_attributes,
    read_layouts,
    stored_digest,
    verify,
)
from pipeline.storage.layout import (
    NO_DIGEST,
    Array,
    Attributes,
    Datasets,
    checked,
    digest_of,
    encode_ids,
    read_back,
    stored_attributes,
    structure_of,
)
from pipeline.storage.structure import Structure, raw, write_at
from pipeline.storage.written_rows import WrittenRows


def write_features(
    path: Path | str, ids: Sequence[str], arrays: Mapping[str, Array], attributes: Attributes
) -> None:
    """Write a feature file at once, atomically. arrays: dataset name -> (N, ...) finite numbers,
    written in their own dtype. WorkbenchError for another number of rows than ids, ids that repeat,
    and numbers that are not finite."""
    values = {"ids": encode_ids(ids)}
    for name, array in arrays.items():
        if array.ndim == 0 or len(array) != len(ids):
            raise WorkbenchError(f"{name}: shape {array.shape} does not fit {len(ids):,} ids")
        values[name] = checked(f"{path}, {name}", array, array.dtype, ids)
    datasets = {name: (array.shape[1:], array.dtype) for name, array in arrays.items()}
    digests = {name: digest_of(array) for name, array in values.items()}
    with atomic_path(path, sum(array.nbytes for array in values.values())) as temporary:
        structure = structure_of(values["ids"], datasets, attributes, digests)
        structure.begin(temporary)
        structure.put(temporary, values)
        for layout in read_back(temporary).values():
            verify(temporary, layout)


class FeatureWriter:
    """A feature file in the making that continues where an earlier, killed process stopped. Leaving
    its context keeps the work; the lock of its command keeps others out. fingerprint: digest of all
    that the values depend on; datasets: name -> (shape of one row, dtype); flush_seconds: of work a
    power cut may cost."""

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
        with translating_write_errors(self.path):
            structure = structure_of(self._encoded, datasets, attributes)
        self._layouts = structure.layouts
        if not self._resumes():
            self._begin(structure)
        self._handle = open(self.path, "rb+")  # noqa: SIM115 - closed by close()
        self._flushed = time.monotonic()

    @property
    def missing(self) -> npt.NDArray[np.int64]:
        """Row numbers not yet written, ascending."""
        return self._mask.missing

    def write(self, rows: npt.ArrayLike, **arrays: Array) -> None:
        """Write some rows (B,): dataset name -> (B, ...) finite values, converted to its dtype."""
        chosen = np.asarray(rows, dtype=np.int64)
        names, stored = [self.ids[row] for row in chosen], []
        for name in self.datasets:
            values, layout = arrays[name], self._layouts[name]
            if values.shape != (len(chosen), *layout.shape[1:]):
                raise ValueError(f"{name}: {values.shape} for {len(chosen)} of {layout.shape}")
            stored.append(checked(name, values, layout.dtype, names))
            with translating_write_errors(self.path):
                _put(self._handle, layout.offset, chosen, stored[-1])
        self._mask.mark(chosen, stored)
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
            structure_of(self._encoded, self.datasets, self.attributes, digests).renew(self.path)
            read_back(self.path)
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

    def _resumes(self) -> bool:
        """Whether there is unfinished work that can be continued; says so if it cannot."""
        if not self.path.is_file():
            return False
        try:
            self._check_structure()
            self._mask.load()
        except WorkbenchError as error:
            say(f"unfinished work cannot be continued and is begun again: {error.message}")
            return False
        bad = self._mask.drop_damaged(self.path, [self._layouts[name] for name in self.datasets])
        if bad:
            say(f"{self.path}: {bad:,} rows of unfinished work are damaged and are made again")
        return True

    def _begin(self, structure: Structure) -> None:
        self._mask.path.unlink(missing_ok=True)
        with atomic_path(self.path, structure.size) as temporary:
            structure.begin(temporary)
            structure.put(temporary, {"ids": self._encoded})

    def _check_structure(self) -> None:
        with opened(self.path) as file:
            attributes, layouts = read_attributes(file), read_layouts(file, self.path)
        attributes.pop("sha256", None)
        # digests may be there: a run was killed while it sealed the file
        empty = {name: replace(layout, sha256=NO_DIGEST) for name, layout in layouts.items()}
        if empty != self._layouts or attributes != stored_attributes(self.attributes):
            raise damaged(self.path, "its structure is not the one this run writes")
        if not np.array_equal(mapped(self.path, layouts["ids"]), self._encoded):
            raise damaged(self.path, "its ids are not those of this run")


def _put(handle: IO[bytes], offset: int, rows: npt.NDArray[np.int64], values: Array) -> None:
    """Write rows of a dataset in place, each run of consecutive rows at once."""
    if values.size == 0:
        return
    row_bytes = values[0].nbytes
    starts = np.flatnonzero(np.diff(rows, prepend=rows[0] - 2) != 1)
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        # Past the buffer, which would be flushed for every run: rows may come in any order.
        write_at(handle.fileno(), raw(values[start:stop]), offset + int(rows[start]) * row_bytes)


def _move(finished: Path, output: Path) -> None:
    try:
        publish(finished, output)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with atomic_path(output) as temporary:
            shutil.copyfile(finished, temporary)
        finished.unlink()
