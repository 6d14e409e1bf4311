"""Matrices that other programs wrote, scores or embeddings, read some rows at a time, and where
their rows belong in the splits of the corpus."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.evaluation.row_ids import RowIds
from pipeline.evaluation.ways_out import (
    USUAL_SCORES,
    USUAL_VECTORS,
    refuse_groups,
    way_out,
    way_out_of_arrays,
)
from pipeline.features.arrays.file import Array, ArrayFile
from pipeline.features.arrays.formats import open_arrays
from pipeline.features.arrays.helpers import check_only_matrix
from pipeline.features.arrays.ids import read_ids
from pipeline.features.matching.clip_retrieval import Parts, open_parts
from pipeline.features.matching.repeats import runs_of
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import say
from pipeline.runtime.section import VECTOR_FILES
from pipeline.runtime.text import Problems

SCORED = ("val", "test")
Places = dict[str, np.ndarray]
_OF_IMAGE = re.compile(r".+#(?:\w+:)?\d+")  # Flickr8k's and Flickr30k's names of captions
_CALLED_IDS = re.compile(r"(?:^|[_ .-])ids?$", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class MatrixFile:
    """A matrix (rows, columns) of numbers in a file, and its lists of ids by name. parts: of a
    folder of clip-retrieval, which has no such lists."""

    path: Path
    values: Array
    ids: Mapping[str, list[str]]
    parts: Parts | None = None

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


def open_matrix(
    path: Path, names: Sequence[str], kind: str = "", images: Collection[int] = ()
) -> MatrixFile:
    """Open the one matrix of a file, or the parts of clip-retrieval.

    Args:
        path: a file, or a folder of clip-retrieval.
        names: of lists of ids that may be in or beside the file.
        kind: img_emb or text_emb of clip-retrieval; empty for scores, which it does not write.
        images: how many images the rows may show, each several times.

    Returns:
        The matrix, whose values are not read yet.

    Raises:
        WorkbenchError: where there is no matrix of numbers, or more than one.
    """
    parts = open_parts(path, kind) if kind else None
    if parts is not None:
        _check(parts.vectors)
        return MatrixFile(path, parts.vectors, {}, parts)
    if path.is_dir():
        lacking = f"a folder without {kind}_0.npy" if kind else "a folder; scores are one file"
        raise WorkbenchError(
            f"{path}: {lacking}",
            "name a file, or the folder that clip-retrieval wrote, with img_emb, text_emb and "
            "metadata",
        )
    hint = "" if len(names) == 1 else way_out(path)
    if hint:
        raise WorkbenchError(f"{path}: allowed endings are {listing(VECTOR_FILES)}", hint)
    file = open_arrays(path)
    values = _matrix(file, names)
    _check(values)
    lists = {name: read_ids(file, name, name) for name in names}
    found = {name: ids.names for name, ids in lists.items() if ids}
    if len(found) < len(names) and list(file.names) != [""]:
        found |= _ids_of_other_names(file, values, names, images)
    return MatrixFile(path, values, found)


def _ids_of_other_names(
    file: ArrayFile, values: Array, names: Sequence[str], images: Collection[int]
) -> dict[str, list[str]]:
    """Ids of embeddings in the only list of a file that can be theirs, whatever its name.

    Without ids rows are taken in the order of the corpus, so a list that nobody has named must not
    be passed over. Texts, and what is called ids, come before other numbers.

    Raises:
        WorkbenchError: several such lists, or one of a matrix of scores, whose side nobody knows.
    """
    # embeddings in a .mat may have a column for each
    sides = values.shape if file.path.suffix == ".mat" else values.shape[: len(names)]
    lengths = {*sides, *(count for count in images for side in sides if side % count == 0)}
    arrays = {name: file.array(name) for name in file.names if name not in names}
    lists = {
        name: array
        for name, array in arrays.items()
        if _length(array) in lengths and array.place != values.place
    }
    called = [name for name, array in lists.items() if _is_called_ids(name, array)]
    numbers = [
        name for name, array in lists.items() if name not in called and _number_ids(array, images)
    ]
    others = (called or numbers) if len(names) == 1 else [*called, *numbers]
    if not others:
        return {}
    only = lists[others[0]]
    if len(names) == 1 and len(others) == 1 and only.dtype.kind in "USOiu" and only.shape[1:] == ():
        way_out = "" if called else "; leave it out if the order is that of the corpus"
        say(f"{file.path}: ids are read from {others[0]}{way_out}")
        ids = read_ids(file, others[0])
        return {names[0]: ids.names} if ids else {}
    raise WorkbenchError(
        f"{file.path}: beside the matrix, which may be ids: {listing(others)}; ids are read from "
        f"{' and '.join(names)}",
        "give them these names, or leave them out if the order is that of the corpus",
    )


def _length(array: Array) -> int | None:
    """How many values an array has that is a list, also as one row or column; None for others."""
    longer = [size for size in array.shape if size != 1]
    return None if len(longer) > 1 or not array.shape else math.prod(longer)


def _is_called_ids(name: str, array: Array) -> bool:
    """Whether a list is texts, or numbers that are called ids."""
    kinds = "USOiu" if _CALLED_IDS.search(name) else "USO"
    return len(array.shape) == 1 and array.dtype.kind in kinds


def _number_ids(array: Array, images: Collection[int]) -> bool:
    """Whether a list of numbers may say which row is which: whole numbers, all different or as many
    as there are images, that do not just count the rows."""
    if array.dtype.kind not in "iuf":
        return False
    values = np.concatenate(list(array.blocks())).ravel()
    if array.dtype.kind == "f" and not (np.isfinite(values) & (np.floor(values) == values)).all():
        return False
    first = values[0]
    if first in (0, 1) and np.array_equal(values, np.arange(first, first + len(values))):
        return False
    different = len(np.unique(values))
    return different == len(values) or different in images


def _check(values: Array) -> None:
    if values.dtype.kind not in "fiu":
        raise WorkbenchError(f"{values.place}: values of type {values.dtype}; expected are numbers")
    if len(values.shape) != 2:
        raise WorkbenchError(f"{values.place}: shape {values.shape}; expected are rows (N, K)")
    if min(values.shape) < 1:
        raise WorkbenchError(f"{values.place}: shape {values.shape}; expected is none of them 0")


def _matrix(file: ArrayFile, ids: Sequence[str]) -> Array:
    arrays = {name: file.array(name) for name in file.names if name not in ids}
    matrices = {name: array for name, array in arrays.items() if len(array.shape) == 2}
    # MATLAB has no single numbers and no lists: they are matrices of one row or column
    wide = {name: array for name, array in matrices.items() if min(array.shape) > 1}
    matrices = wide or matrices
    usual = USUAL_VECTORS if len(ids) == 1 else USUAL_SCORES
    if usual in matrices:
        return matrices[usual]
    if len(matrices) != 1 or usual in arrays:
        shapes = listing(f"{name} {array.shape}".strip() for name, array in arrays.items())
        if not arrays:
            refuse_groups(file.path)
        raise WorkbenchError(
            f"{file.path}: {len(matrices)} matrices; expected is one; it has {shapes or 'nothing'}",
            way_out_of_arrays(file, arrays, usual),
        )
    name, matrix = next(iter(matrices.items()))
    check_only_matrix(file.path, name, arrays, f"if it is, save it alone as {usual}")
    return matrix


def places(table: pd.DataFrame, key: str, rows: RowIds, needed: str, where: str) -> Places:
    """Where the rows of a file belong in the splits that are scored.

    Args:
        table: of the corpus.
        key: its column of ids.
        rows: what N rows are about.
        needed: the split that must be there whole; the other one is whole or not there at all.
        where: begins messages.

    Returns:
        By split (N,) int64, -1 for a row that is not of the split, or there again.

    Raises:
        WorkbenchError: for ids that are there twice, missing, or unknown.
    """
    ids = rows.ids
    names = {split: list(table[key][table["split"] == split]) for split in SCORED}
    seen = set(ids)
    known = set(table[key])
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
    problems.raise_if_any(_hint(table, key, rows))
    by_split = {}
    for split in splits:
        numbers = {name: number for number, name in enumerate(names[split])}
        by_split[split] = np.full(len(rows.first), -1, np.int64)
        by_split[split][rows.first] = [numbers.get(name, -1) for name in ids]
    return by_split


def _hint(table: pd.DataFrame, key: str, rows: RowIds) -> str:
    """What ids should be, for a message."""
    own = str(table[key].iat[0])
    hint = f"ids are those of the corpus, such as {own!r}"
    if key == "image_id" and len(runs_of(rows.ids)) > len(set(rows.ids)):
        hint += "; rows of an image that is there several times must follow each other"
    are_numbered = all(_OF_IMAGE.fullmatch(name) for name in rows.ids)
    if key == "caption_id" and are_numbered and not _OF_IMAGE.fullmatch(own):
        hint += (
            "; for IMAGE#NUMBER write the caption_id that data/corpus/captions.parquet has for "
            "this caption"
        )
    return hint
