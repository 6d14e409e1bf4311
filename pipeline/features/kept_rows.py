"""Rows of earlier runs, for runs with some other images or captions: those whose input and settings
are the same are not computed again.

A store under data/.work is two files: the feature file itself, under a second name, and an index
with the input and the CRC-32 of every row. Its name is a digest of all that the rows depend on
beside their input: settings, weights, code, libraries, processor, device.

An index is written after its file and names it by its digest: a kill leaves the store as it was.
DVC deletes a stage's outputs before it runs, and its `persist` would keep them; but then the output
of the last experiment alone would be there, under no settings' name.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.features.batches import RowInputs
from pipeline.features.feature_file import FeatureFile, Rows, row_checksums, write_features
from pipeline.features.hdf5 import damaged
from pipeline.features.layout import Array, Datasets
from pipeline.runtime.disk import translating_write_errors
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import atomic_path, make_folder
from pipeline.runtime.process import say

INDEX = ".rows"  # ending of an index
KEY = "key"  # an attribute of an index: whose rows these are
FILE = "file"  # another: digest of the feature file
GIGABYTE = 10**9
BLOCK_ROWS = 256  # read at once


@dataclass(frozen=True)
class KeptRows:
    """Rows of an earlier run that a file in the making takes over.

    Attributes:
        rows: K row numbers of the file in the making, ascending.
        checksums: (K,) CRC-32 of each.
        file: the earlier run's.
        sources: (K,) their row numbers there.
    """

    rows: Rows
    checksums: Rows
    file: FeatureFile
    sources: Rows

    @property
    def starts(self) -> range:
        """Where the blocks of `blocks` begin."""
        return range(0, len(self.rows), BLOCK_ROWS)

    def blocks(self, names: list[str]) -> Iterator[tuple[Rows, dict[str, Array]]]:
        """The values of the datasets `names`, some rows at a time, with the numbers of the rows."""
        for start in self.starts:
            part = slice(start, start + BLOCK_ROWS)
            yield (
                self.rows[part],
                {name: self.file.read(self.sources[part], name) for name in names},
            )


@dataclass(frozen=True)
class RowStore:
    """The stores of all extractions.

    Attributes:
        folder: where they lie.
        limit: of all of them together, GB; the oldest are removed first; 0: nothing is kept.
    """

    folder: Path
    limit: float

    def find(self, key: str, inputs: RowInputs, datasets: Datasets) -> KeptRows | None:
        """The rows that an earlier run has, checked; a damaged store is passed over with a line.

        Args:
            key: digest of all that the rows depend on beside their input.
            inputs: of the N rows that are wanted.
            datasets: shape of a row and type of each, by name.

        Returns:
            The rows, at least one; None where there are none.
        """
        path = self.folder / f"{key}{INDEX}"
        if not self.limit or not path.is_file():
            return None
        try:
            index = FeatureFile(path)
            file = self._file(key, index, datasets)
            place = {name: number for number, name in enumerate(index.ids)}
            numbers = np.array([place.get(name, -1) for name in inputs.keys], np.int64)
            rows = np.flatnonzero(numbers >= 0)
            sources = index.load("rows")[numbers[rows]]
            checksums = index.load("checksums")[numbers[rows]]
        except WorkbenchError as error:
            say(f"rows of an earlier run are not used: {error.message}")
            return None
        kept = KeptRows(rows, checksums, file, sources)
        good = np.ones(len(rows), bool)
        for start, (_, values) in zip(kept.starts, kept.blocks(list(datasets)), strict=True):
            found = row_checksums(list(values.values()))
            good[start : start + BLOCK_ROWS] = found == checksums[start : start + BLOCK_ROWS]
        if not good.all():
            say(f"{file.path}: {np.sum(~good):,} rows are damaged and are made again")
        if not good.any():
            return None
        return KeptRows(rows[good], checksums[good], file, sources[good])

    def keep(self, key: str, inputs: RowInputs, path: Path, checksums: Rows) -> None:
        """Keep the rows of a finished file for later runs; where that fails, a line says so.

        Args:
            key: digest of all that the rows depend on beside their input.
            inputs: of its N rows.
            path: the file, whose bytes never change from now on.
            checksums: (N,) CRC-32 of its rows.
        """
        if not self.limit:
            return
        size = path.stat().st_size
        if size > self.limit * GIGABYTE:
            say(
                f"rows are not kept for later runs: {size / GIGABYTE:.1f} GB, more than "
                f"runtime.extraction.kept_gb = {self.limit:g}"
            )
            return
        first = {name: row for row, name in reversed(list(enumerate(inputs.keys)))}
        rows = np.array(list(first.values()), np.int64)
        try:
            with self._locked():
                file = FeatureFile(path)
                target = self.folder / f"{key}-{file.sha256}.h5"
                _share(path, target)
                write_features(
                    self.folder / f"{key}{INDEX}",
                    ids=list(first),
                    arrays={"rows": rows, "checksums": checksums[rows]},
                    attributes={KEY: key, FILE: file.sha256},
                )
                self._prune()
        except (OSError, WorkbenchError) as error:
            say(f"rows are not kept for later runs: {error}")

    def _file(self, key: str, index: FeatureFile, datasets: Datasets) -> FeatureFile:
        if index.attributes.get(KEY) != key:
            raise damaged(index.path, "its rows are of other settings than its name says")
        digest = str(index.attributes.get(FILE))
        file = FeatureFile(self.folder / f"{key}-{digest}.h5")
        if file.sha256 != digest:
            raise damaged(file.path, "not the file that its name says")
        for name, (shape, kind) in datasets.items():
            if file.shape(name)[1:] != tuple(shape) or file.dtype(name) != np.dtype(kind):
                raise damaged(file.path, f"rows of {name} have another shape or type")
        for name in ("rows", "checksums"):
            if index.dtype(name) != np.int64 or index.shape(name) != (len(index),):
                raise damaged(index.path, f"{name} is no column of whole numbers")
        rows = index.load("rows")
        if ((rows < 0) | (rows >= len(file))).any():
            raise damaged(index.path, "it names rows that its file does not have")
        return file

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from removing a file whose index is about to be written."""
        make_folder(self.folder)
        with open(self.folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _prune(self) -> None:
        """Remove the oldest stores beyond the limit, and files that no index names."""
        indices = sorted(self.folder.glob(f"*{INDEX}"), key=_age, reverse=True)
        named = set()
        left = self.limit * GIGABYTE
        for index in indices:
            try:
                digest = str(FeatureFile(index).attributes.get(FILE))
                file = self.folder / f"{index.stem}-{digest}.h5"
                left -= file.stat().st_size
            except (OSError, WorkbenchError):  # damaged: nothing can be taken from it
                index.unlink()
                continue
            if left < 0:
                index.unlink()
            else:
                named.add(file)
        for file in self.folder.glob("*.h5"):
            if file not in named:
                file.unlink()


def _age(path: Path) -> int:
    return path.stat().st_mtime_ns


def _share(path: Path, target: Path) -> None:
    """Give a file a second name, or a copy where the file system has no second names."""
    target.unlink(missing_ok=True)
    try:
        os.link(path, target)
    except OSError:
        size = path.stat().st_size
        with translating_write_errors(target), atomic_path(target, size) as temporary:
            shutil.copyfile(path, temporary)
