"""MATLAB's files of version 4 to 7, and of 7.3, which is HDF5.

scipy ends the process at an unknown type of data, so the types are checked first: a file is a
header and elements of a type, a size and that many bytes. MATLAB's programs often keep a vector in
a column, so a matrix may be turned.
"""

import math
import struct
import zlib
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pipeline.features.arrays.file import Array, ArrayFile, Block
from pipeline.features.arrays.hdf5 import read_hdf5
from pipeline.runtime.errors import WorkbenchError, damage_named
from pipeline.runtime.first_bytes import explain

HEADER = 128  # bytes
ORDERS = {b"IM": "<", b"MI": ">"}
MATRIX = 14  # types of elements
COMPRESSED = 15
VALUES = (1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18)  # numbers and characters
MAX_UNPACKED = 1 << 31  # bytes

# Classes of variables, and the type that scipy reads them as.
NUMBERS = {"double": "f8", "single": "f4"}
NUMBERS |= {
    f"{sign}int{size}": f"{sign or 'i'}{size // 8}"
    for sign in ("", "u")
    for size in (8, 16, 32, 64)
}


def read_mat(path: Path) -> ArrayFile:
    """The matrices of numbers in a file; cells, structures, texts and objects are left out."""
    if h5py.is_hdf5(path):
        return read_hdf5(path)
    from scipy.io import whosmat

    _check_file(path)
    found = {name: (shape, NUMBERS[kind]) for name, shape, kind in whosmat(path) if kind in NUMBERS}

    def find(name: str) -> Array | None:
        if name not in found:
            return None
        shape, kind = found[name]
        place = f"{path}, array {name}"
        if math.prod(shape) * np.dtype(kind).itemsize > MAX_UNPACKED:
            raise WorkbenchError(f"{place}: shape {shape}, more than {MAX_UNPACKED:,} bytes")
        return Array(place, shape, np.dtype(kind), partial(_rows, path, name, np.dtype(kind)))

    return ArrayFile(path, list(found), find)


def only_matrix(file: ArrayFile) -> str | None:
    """The name of the one matrix that is no number, row or column; None where there are others."""
    arrays = {name: file.array(name) for name in file.names}
    found = [name for name, one in arrays.items() if len(one.shape) == 2 and min(one.shape) > 1]
    return found[0] if len(found) == 1 else None


def upright(array: Array, count: int) -> Array:
    """A matrix with a row for each of `count` images or captions, which may have a column for each.

    Args:
        array: (N, D) or (D, N).
        count: N.

    Returns:
        (N, D); the matrix as it is where neither side is N.

    Raises:
        WorkbenchError: where both sides are N.
    """
    if array.shape == (count, count):
        raise WorkbenchError(
            f"{array.place}: {count:,} rows and as many columns; either could be the images",
            "save it as .npy with a row for each image",
        )
    return turned(array) if array.shape[1:] == (count,) else array


def turned(array: Array) -> Array:
    """A matrix with rows and columns exchanged, in memory when it is read."""
    if array.nbytes > MAX_UNPACKED:
        raise WorkbenchError(
            f"{array.place}: shape {array.shape}, too large to turn in memory",
            "save it with a row for each image: feats = feats'",
        )
    return Array(array.place, array.shape[::-1], array.dtype, partial(_turned_rows, array))


def _turned_rows(array: Array, rows: int) -> Iterator[Block]:
    values = np.empty(array.shape[::-1], array.dtype)
    done = 0
    for block in array.blocks():
        values[:, done : done + len(block)] = block.T
        done += len(block)
    for start in range(0, len(values), rows):
        yield values[start : start + rows]


def _rows(path: Path, name: str, dtype: np.dtype[Any], rows: int) -> Iterator[Block]:
    from scipy.io import loadmat

    values = loadmat(path, variable_names=(name,))[name]
    for start in range(0, len(values), rows):
        # whole numbers of any class are stored as small integers
        yield values[start : start + rows].astype(dtype)


def load_mat(path: Path, names: Collection[str]) -> dict[str, np.ndarray]:
    """Variables of any kind in a file of version 4 to 7, cells and structures, too.

    Args:
        path: of the file.
        names: of the variables that are read.

    Returns:
        Those that are there, by name, as scipy gives them.

    Raises:
        WorkbenchError: for a damaged file, and for one of version 7.3.
    """
    from scipy.io import loadmat

    with damage_named(str(path)):
        _check_file(path)
        try:
            arrays: dict[str, np.ndarray] = loadmat(path, variable_names=tuple(names))
        except NotImplementedError:
            raise WorkbenchError(
                f"{path}: of MATLAB 7.3, another format", "save it with: save(..., '-v7')"
            ) from None
        return arrays


def _check_file(path: Path) -> None:
    """Raise WorkbenchError for a file of another kind, ValueError for elements of no known type."""
    other = explain(path, expected=("matlab", "hdf5", "empty", "zeros"))
    if other is not None:
        raise other
    content = memoryview(path.read_bytes())
    order = ORDERS.get(bytes(content[HEADER - 2 : HEADER]))
    if order and all(content[:4]):  # version 4 begins with a number
        _check(content[HEADER:], order)


def _check(content: memoryview, order: str) -> None:
    """Raise ValueError where an element has no known type, or is cut off."""
    at = 0
    while at + 8 <= len(content):
        kind, size = struct.unpack_from(f"{order}II", content, at)
        start = at + 8
        if kind >> 16:  # up to four bytes, in the place of the size
            size = kind >> 16
            kind = kind & 0xFFFF
            start = at + 4
        element = content[start : start + size]
        if len(element) < size or (start == at + 4 and size > 4):
            raise ValueError(f"an element of {size:,} bytes is cut off")
        if kind == COMPRESSED:
            _check(memoryview(zlib.decompressobj().decompress(element, MAX_UNPACKED)), order)
        elif kind == MATRIX:
            _check(element, order)
        elif kind not in VALUES:
            raise ValueError(f"data of the type {kind}, which there is not")
        at = start + size
        at += 0 if kind == COMPRESSED else -at % 8
