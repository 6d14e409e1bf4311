"""Matrices that other programs wrote, scores or embeddings; read once, some rows at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.arrays.file import Array, ArrayFile
from pipeline.arrays.formats import open_arrays
from pipeline.arrays.ids import read_ids
from pipeline.runtime.errors import WorkbenchError, listing

USUAL = "features"  # is meant where a file has several matrices


@dataclass(frozen=True, eq=False)
class MatrixFile:
    """A matrix (rows, columns) of numbers in a file, and its lists of ids by name."""

    path: Path
    values: Array
    ids: Mapping[str, list[str]]

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Number of the first row, and (n, columns) float32, finite before and after conversion."""
        start = 0
        for block in self.values.blocks():
            with np.errstate(over="ignore", invalid="ignore"):
                values = np.ascontiguousarray(block, np.float32)
            if not np.isfinite(values).all():
                row, column = (int(n[0]) for n in np.nonzero(~np.isfinite(values)))
                raise WorkbenchError(
                    f"{self.path}: {float(block[row, column])} in row {start + row}, column "
                    f"{column} (from 0); every value must be a finite number that float32 can hold"
                )
            yield start, values
            start += len(values)


def open_matrix(path: Path, names: Sequence[str]) -> MatrixFile:
    """Open the one matrix of a file. names: of lists of ids that may be in or beside the file."""
    file = open_arrays(path)
    values = _matrix(file, names)
    if values.dtype.kind not in "fiu":
        raise WorkbenchError(f"{values.place}: values of type {values.dtype}; expected are numbers")
    if min(values.shape) < 1:
        raise WorkbenchError(f"{values.place}: shape {values.shape}; expected is none of them 0")
    found = {name: read_ids(file, name, name) for name in names}
    return MatrixFile(path, values, {name: ids.names for name, ids in found.items() if ids})


def _matrix(file: ArrayFile, ids: Sequence[str]) -> Array:
    arrays = {name: file.array(name) for name in file.names if name not in ids}
    found = [array for array in arrays.values() if len(array.shape) == 2]
    if len(found) > 1 and USUAL in arrays:
        return arrays[USUAL]
    if len(found) != 1:
        there = listing(f"{name} {array.shape}".strip() for name, array in arrays.items())
        raise WorkbenchError(
            f"{file.path}: {len(found)} matrices; expected is one; it has {there or 'nothing'}"
        )
    return found[0]
