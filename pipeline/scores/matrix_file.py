"""Matrices that other programs wrote, scores or embeddings; read once, some rows at a time, and
which image or caption of the corpus each row is about."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.arrays.file import Array, ArrayFile
from pipeline.arrays.formats import open_arrays
from pipeline.arrays.ids import read_ids
from pipeline.corpus.tables import in_split
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.text import Problems

SCORED = ("val", "test")
Places = dict[str, np.ndarray]
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
    lists = {name: read_ids(file, name, name) for name in names}
    return MatrixFile(path, values, {name: ids.names for name, ids in lists.items() if ids})


def _matrix(file: ArrayFile, ids: Sequence[str]) -> Array:
    arrays = {name: file.array(name) for name in file.names if name not in ids}
    matrices = [array for array in arrays.values() if len(array.shape) == 2]
    if len(matrices) > 1 and USUAL in arrays:
        return arrays[USUAL]
    if len(matrices) != 1:
        shapes = listing(f"{name} {array.shape}".strip() for name, array in arrays.items())
        raise WorkbenchError(
            f"{file.path}: {len(matrices)} matrices; expected is one; it has {shapes or 'nothing'}"
        )
    return matrices[0]


def places(
    table: pd.DataFrame, key: str, ids: Sequence[str] | None, count: int, needed: str, where: str
) -> Places:
    """Where the rows of a file belong in the splits that are scored: (count,) int64, -1 for none.
    ids: None: rows are those of the needed split, or of the whole table, in its order; needed: the
    split that must be there whole; the other one is there whole or not at all."""
    if ids is None:
        part = in_split(table, needed)
        if count not in (len(part), len(table)):
            raise WorkbenchError(
                f"{where}: {count:,} rows without ids; the corpus has {len(part):,} in its "
                f"{needed} split and {len(table):,} in all",
                "without ids the rows are those of one of these, in the order of the corpus",
            )
        ids = list((part if count == len(part) else table)[key])
    if len(ids) != count:
        raise WorkbenchError(f"{where}: {len(ids):,} ids for {count:,} rows")
    names = {split: list(table[key][table["split"] == split]) for split in SCORED}
    seen, known = set(ids), set(table[key])
    splits = [split for split in SCORED if split == needed or seen & set(names[split])]
    problems = Problems(where)
    problems.add("ids more than once", (n for n, times in Counter(ids).items() if times > 1))
    problems.add(
        "ids that the corpus does not have", dict.fromkeys(n for n in ids if n not in known)
    )
    for split in splits:
        problems.add(
            f"ids of the {split} split that are missing", (n for n in names[split] if n not in seen)
        )
    problems.raise_if_any(f"ids are those of the corpus, such as {table[key].iat[0]!r}")
    by_split = {}
    for split in splits:
        numbers = {name: number for number, name in enumerate(names[split])}
        by_split[split] = np.array([numbers.get(name, -1) for name in ids], np.int64)
    return by_split
