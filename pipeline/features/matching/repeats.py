"""Rows that stand in a file several times, as VSE++ and SCAN repeat an image for each caption:
found, compared, and taken once."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pipeline.features.arrays.file import Array
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import say
from pipeline.runtime.text import printable

Flags = npt.NDArray[np.bool_]


def equal_to_previous(array: Array) -> Flags:
    """Which rows have the same bits as the row before them. array: (N, ...); result: (N,)."""
    flags = np.zeros(array.shape[0], bool)
    start = 0
    last = None
    for block in array.blocks():
        rows = np.ascontiguousarray(block).reshape(len(block), -1).view(np.uint8)
        flags[start + 1 : start + len(rows)] = (rows[1:] == rows[:-1]).all(axis=1)
        if last is not None:
            flags[start] = np.array_equal(rows[0], last)
        last = rows[-1].copy()
        start += len(rows)
    return flags


def columns_equal_to_previous(array: Array) -> Flags:
    """Which columns are equal to the column before them. array: (N, K); result: (K,)."""
    flags = np.ones(array.shape[1], bool)
    for block in array.blocks():
        flags[1:] &= (block[:, 1:] == block[:, :-1]).all(axis=0)
    flags[0] = False
    return flags


def firsts_of(counts: Sequence[int]) -> Flags:
    """Which rows begin an image's, where image i has counts[i] of them; (sum of counts,)."""
    starts = np.cumsum([0, *counts[:-1]])
    flags = np.zeros(int(np.sum(counts)), bool)
    flags[starts] = True
    return flags


def first_difference(same: Flags, firsts: Flags) -> int | None:
    """The first row that should repeat the one before it and does not; None where all do.

    Args:
        same: (N,) rows with the bits of the row before them.
        firsts: (N,) rows that begin an image's.

    Returns:
        Its number from 0, or None.
    """
    different = np.flatnonzero(~firsts & ~same)
    return int(different[0]) if len(different) else None


def first_rows_of_ids(names: Sequence[str], array: Array, where: str) -> Flags:
    """Which rows count where ids stand there several times in a row.

    Args:
        names: N ids of the rows.
        array: (N, ...) the rows.
        where: begins messages.

    Returns:
        (N,) the first row of each id; all rows where an id comes back later.

    Raises:
        WorkbenchError: where rows of one id differ.
    """
    firsts = _begin_runs(names)
    if firsts.all() or firsts.sum() != len(set(names)):
        return np.ones(len(names), bool)
    row = first_difference(equal_to_previous(array), firsts)
    if row is not None:
        raise WorkbenchError(
            f"{where}: rows {row - 1:,} and {row:,} (from 0) have the id {printable(names[row])}, "
            "and differ",
            "keep one row for each id",
        )
    most = max(runs_of(names))
    say(f"{where}: ids stand there up to {most} times in a row, with equal rows; taken once")
    return firsts


def runs_of(names: Sequence[str]) -> list[int]:
    """Lengths of the runs of equal names, in order."""
    starts = np.flatnonzero(_begin_runs(names))
    return np.diff(starts, append=len(names)).tolist()


def _begin_runs(names: Sequence[str]) -> Flags:
    """Which names are not that of the row before; (N,). Of a million names a flag each: as Python's
    numbers their places alone took 40 MB."""
    flags = np.ones(len(names), bool)
    following = (one != other for one, other in pairwise(names))
    flags[1:] = np.fromiter(following, bool, max(0, len(names) - 1))
    return flags
