"""numpy's own files: X.npy with one array, X.npz with several, compressed or not."""

import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy_format

from pipeline.features.arrays.file import Array, ArrayFile, Block
from pipeline.runtime.errors import WorkbenchError, damage_named
from pipeline.runtime.first_bytes import explain

Handle = AbstractContextManager[IO[bytes]]
MOST_IN_MEMORY = 1 << 31  # bytes of an array in an archive whose values stand column by column


class Header(NamedTuple):
    """What an array's file begins with."""

    shape: tuple[int, ...]
    is_fortran: bool  # values column by column
    dtype: np.dtype[Any]
    offset: int  # bytes before the values


def read_npy(path: Path) -> ArrayFile:
    """The one array of an .npy, whose name is empty."""

    def find(name: str) -> Array | None:
        size = path.stat().st_size
        return None if name else _array(lambda: open(path, "rb"), str(path), size, path)

    return ArrayFile(path, [""], find)


def read_npz(path: Path) -> ArrayFile:
    """The arrays of an .npz, by the names of its members without `.npy`."""
    with zipfile.ZipFile(path) as archive:
        members = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}

    def find(name: str) -> Array | None:
        if name not in members:
            return None
        handle_of = partial(_member, path, members[name].filename)
        return _array(handle_of, f"{path}, array {name}", members[name].file_size)

    return ArrayFile(path, list(members), find)


def mapped_npy(path: Path, dims: int, hint: str = "") -> np.ndarray:
    """Map an array of floats.

    Args:
        path: of the file.
        dims: number of dimensions that it must have.
        hint: what to do with a file of another number.

    Returns:
        The array, read as it is touched.

    Raises:
        WorkbenchError: for other types and shapes.
    """
    other = explain(path, expected=("npy",))
    if other is not None:
        raise other
    array = read_npy(path).array("")
    array.check_floats()
    if len(array.shape) != dims or min(array.shape) < 1:
        raise WorkbenchError(f"{path}: shape {array.shape}; expected are {dims} dimensions", hint)
    return np.asarray(np.load(path, "r", allow_pickle=False))


def read_header(handle: IO[bytes], place: str, size: int) -> Header:
    """The header of an array.

    Args:
        handle: open at its first byte; left before the values.
        place: file and name, with which messages begin.
        size: bytes that are there, the header's included.

    Returns:
        What it says.

    Raises:
        WorkbenchError: for a damaged header, for objects, which are pickled, and for another size
            than it promises.
    """
    with damage_named(place):
        version = npy_format.read_magic(handle)
        read = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
        shape, is_fortran, dtype = read[version](handle)
    if dtype.hasobject:
        raise WorkbenchError(
            f"{place}: holds pickled objects, which could run code; not read",
            "save the array again with a plain type: float32, or for ids np.array(ids, dtype=str)",
        )
    promised = handle.tell() + math.prod(shape) * dtype.itemsize
    if promised != size:
        raise WorkbenchError(
            f"{place}: {size:,} bytes; its header promises shape {shape}, which takes {promised:,}",
            "copy or unpack the file again",
        )
    return Header(shape, is_fortran and len(shape) > 1, dtype, handle.tell())


def _array(
    handle_of: Callable[[], Handle], place: str, size: int, path: Path | None = None
) -> Array:
    """An array behind a handle; path: of its own .npy, which may be in Fortran order."""
    with handle_of() as handle:
        header = read_header(handle, place, size)
    if not header.is_fortran:
        rows = partial(_rows, handle_of, header, place)
        return Array(place, header.shape, header.dtype, rows)
    if path is not None:
        return Array(place, header.shape, header.dtype, partial(_fortran_rows, path))
    if math.prod(header.shape) * header.dtype.itemsize > MOST_IN_MEMORY:
        raise WorkbenchError(
            f"{place}: shape {header.shape} in Fortran order, too large to turn in memory",
            "save numpy.ascontiguousarray of it",
        )
    rows = partial(_fortran_rows_of_member, handle_of, header, place)
    return Array(place, header.shape, header.dtype, rows)


def _fortran_rows_of_member(
    handle_of: Callable[[], Handle], header: Header, place: str, rows: int
) -> Iterator[Block]:
    """The rows of an array in an archive, column by column, which is turned in memory."""
    turned = Header(header.shape[::-1], False, header.dtype, header.offset)
    blocks = list(_rows(handle_of, turned, place, rows))
    values = np.concatenate(blocks).T
    return (values[start : start + rows] for start in range(0, len(values), rows))


def _fortran_rows(path: Path, rows: int) -> Iterator[Block]:
    values = np.load(path, "r", allow_pickle=False)
    return (values[start : start + rows] for start in range(0, len(values), rows))


def _rows(
    handle_of: Callable[[], Handle], header: Header, place: str, rows: int
) -> Iterator[Block]:
    # Read and not mapped: pages of a map would count as memory of this process.
    count = header.shape[0]
    size = header.dtype.itemsize * math.prod(header.shape[1:])
    with handle_of() as handle:
        handle.read(header.offset)
        for start in range(0, count, rows):
            wanted = min(rows, count - start)
            data = handle.read(wanted * size)
            if len(data) != wanted * size:
                raise WorkbenchError(f"{place}: cut off at row {start + len(data) // size:,}")
            yield np.frombuffer(data, header.dtype).reshape((wanted, *header.shape[1:]))


@contextmanager
def _member(path: Path, name: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive, archive.open(name) as handle:
        yield handle
