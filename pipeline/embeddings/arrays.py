"""numpy's own files: X.npy with its ids beside it, and X.npz with two arrays."""

import errno
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from pipeline.embeddings.ids import ROWS, array_ids, check_ids, ids_beside
from pipeline.embeddings.source import Block, Embeddings, check_shape, rows_at_once, stored_as
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.storage.npy import ZIP_DAMAGE, Header, check_floats, read_header


def read_npy(path: Path, ids: str, features: str) -> Embeddings:
    """Vectors in an .npy file.

    Args:
        path: of the file.
        ids: not read, the ids lie beside it.
        features: not read, the file holds one array.

    Raises:
        WorkbenchError: what is no array of vectors, or has no ids beside it.
    """
    with open(path, "rb") as handle:
        header = read_header(handle, str(path))
    check_floats(header, 2, path.stat().st_size, str(path))
    shape = check_shape(str(path), header.shape)
    ids_path, found = ids_beside(path)
    blocks = partial(_blocks, partial(_file, path), header, str(path))
    return Embeddings(path, found, shape, stored_as(header.dtype), blocks, ids_path)


def read_npz(path: Path, ids: str, features: str) -> Embeddings:
    """Vectors and ids in an .npz file, compressed or not.

    Args:
        path: of the file.
        ids: name of the array of ids.
        features: name of the array of vectors.

    Raises:
        WorkbenchError: a damaged file, or one without such arrays.
    """
    place = f"{path}, array {features}"
    with _array(path, features) as (handle, size):
        header = read_header(handle, place)
    check_floats(header, 2, size, place)
    shape = check_shape(place, header.shape)
    with _array(path, ids) as (handle, size):
        of_ids = f"{path}, array {ids}"
        rows = read_header(handle, of_ids)
        check_ids(rows, size, of_ids)
        found = array_ids(array_rows(handle, rows, ROWS, of_ids), of_ids)
    blocks = partial(_blocks, partial(_opened, path, features), header, place)
    return Embeddings(path, found, shape, stored_as(header.dtype), blocks)


def _blocks(
    opened: Callable[[], AbstractContextManager[IO[bytes]]], header: Header, place: str
) -> Iterator[Block]:
    # Read and not mapped: pages of a map would count as memory of this process.
    with opened() as handle:
        handle.read(header.offset)
        yield from array_rows(handle, header, rows_at_once(header.shape[1]), place)


def array_rows(handle: IO[bytes], header: Header, rows: int, place: str) -> Iterator[Block]:
    """The rows of an array in C order, some at a time.

    Args:
        handle: behind the header that was read of it.
        header: of the array.
        rows: of a block.
        place: what messages begin with.

    Raises:
        WorkbenchError: values that are damaged or fewer than the header says.
    """
    count, width = header.shape[0], header.shape[1:]
    size = header.dtype.itemsize * int(np.prod(width, dtype=np.int64))
    for start in range(0, count, rows):
        wanted = min(rows, count - start)
        with damage_named(place):
            data = handle.read(wanted * size)
        if len(data) != wanted * size:
            raise WorkbenchError(f"{place}: cut off at row {start + len(data) // size:,}")
        yield np.frombuffer(data, header.dtype).reshape(wanted, *width)


@contextmanager
def _array(path: Path, name: str) -> Iterator[tuple[IO[bytes], int]]:
    """An array's file in an .npz and its size in bytes, as the archive says it."""
    with damage_named(str(path)), zipfile.ZipFile(path) as archive:
        names = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        if name not in names:
            raise WorkbenchError(
                f"{path}: no array {name!r}; it has {listing(names)}",
                "name the arrays of ids and vectors under `file` in params.yaml",
            )
        with archive.open(names[name]) as handle:
            yield handle, names[name].file_size


def _file(path: Path) -> IO[bytes]:
    return open(path, "rb")


@contextmanager
def _opened(path: Path, name: str) -> Iterator[IO[bytes]]:
    with _array(path, name) as (handle, _):
        yield handle


@contextmanager
def damage_named(place: str, ending: str = ".npz") -> Iterator[None]:
    """Failures of zipfile and numpy as a WorkbenchError; ending: of a file that is whole."""
    try:
        yield
    except (*ZIP_DAMAGE, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise  # what the system refuses; that one is a member said to begin before the file
        first = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise WorkbenchError(f"{place}: damaged or no {ending} file: {first}") from None
