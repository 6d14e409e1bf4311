"""How the formats of a matrix are read: shape and ids at once, values some rows at a time.

.npy and .npz may do without ids, and scores have them for both sides; all other formats are those
of pipeline.embeddings, a vector and an id a row.
"""

import importlib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from pipeline.embeddings.arrays import array_rows, damage_named
from pipeline.embeddings.job import READERS as VECTORS
from pipeline.embeddings.source import Embeddings
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.storage.npy import Header, check_plain, check_size, read_header

MAX_ID_BYTES = 1 << 30
NUMBERS = "fiu"

Blocks = Callable[[int], Iterator[np.ndarray]]  # rows of a block -> blocks of consecutive rows


class Opened(NamedTuple):
    """What a file has: shape of its one matrix, its rows, lists of ids by name."""

    shape: tuple[int, ...]
    read: Blocks
    ids: Mapping[str, np.ndarray | list[str]]


def open_format(path: Path, names: Sequence[str]) -> Opened:
    """Open a file by its ending; WorkbenchError when it has not one matrix, or is damaged."""
    allowed = VECTORS if "ids" in names else READERS
    if path.suffix not in allowed:
        raise WorkbenchError(f"{path}: allowed endings are {listing(allowed)}")
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file")
    reader = READERS.get(path.suffix, _vectors)
    with damage_named(str(path), path.suffix):
        return reader(path, names)


def _vectors(path: Path, _: Sequence[str]) -> Opened:
    """A file of embeddings: `ids` and `features`, unless the ids lie beside it."""
    module, _, function = VECTORS[path.suffix].partition(":")
    try:
        found: Embeddings = getattr(importlib.import_module(module), function)(
            path, "ids", "features"
        )
    except WorkbenchError as error:
        if "params.yaml" not in error.hint:
            raise
        raise WorkbenchError(  # names can be chosen for image_features and sentences, not here
            error.message, "the names that are read are ids and features"
        ) from None
    return Opened(found.shape, lambda _: found.blocks(), {"ids": found.ids})


def _npy(path: Path, _: Sequence[str]) -> Opened:
    with open(path, "rb") as handle:
        header = read_header(handle, str(path))
    _check_numbers(header, path.stat().st_size, str(path))
    order: Literal["F", "C"] = "F" if header.fortran else "C"
    values = np.memmap(path, header.dtype, "r", header.offset, header.shape, order)

    def read(height: int) -> Iterator[np.ndarray]:
        for start in range(0, len(values), height):
            yield values[start : start + height]

    return Opened(header.shape, read, {})


def _npz(path: Path, names: Sequence[str]) -> Opened:
    with zipfile.ZipFile(path) as archive:
        headers: dict[str, Header] = {}
        for info in archive.infolist():
            place = f"{path}, {info.filename}"
            with archive.open(info) as handle:
                headers[info.filename] = header = read_header(handle, place)
            check_plain(header, place)
            check_size(header, info.file_size, place)
        members = {f"{name}.npy": name for name in names if f"{name}.npy" in headers}
        ids = {
            name: _array(archive, member, headers[member], f"{path}, {name}")
            for member, name in members.items()
        }
    member = _only(path, {m: h.shape for m, h in headers.items() if m not in members})
    header = headers[member]
    _check_numbers(header, header.nbytes, f"{path}, {member}")
    if header.fortran and min(header.shape) > 1:
        raise WorkbenchError(
            f"{path}, {member}: in Fortran order, which cannot be read row by row",
            "save numpy.ascontiguousarray of it",
        )

    def read(height: int) -> Iterator[np.ndarray]:
        place = f"{path}, {member}"
        with (
            damage_named(str(path)),
            zipfile.ZipFile(path) as archive,
            archive.open(member) as handle,
        ):
            yield from array_rows(handle, read_header(handle, place), height, place)

    return Opened(header.shape, read, ids)


def _array(archive: zipfile.ZipFile, member: str, header: Header, place: str) -> np.ndarray:
    if len(header.shape) != 1 or header.nbytes > MAX_ID_BYTES:
        raise WorkbenchError(f"{place}: shape {header.shape}; expected is a list of ids")
    with archive.open(member) as handle:
        handle.read(header.offset)
        return np.frombuffer(handle.read(), header.dtype)


READERS: Mapping[str, Callable[[Path, Sequence[str]], Opened]] = {".npy": _npy, ".npz": _npz}


def _check_numbers(header: Header, found: int, place: str) -> None:
    check_plain(header, place)
    if header.dtype.kind not in NUMBERS:
        raise WorkbenchError(f"{place}: values of type {header.dtype}; expected are numbers")
    check_size(header, found, place)


def _only(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """The name of the one matrix."""
    found = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(found) != 1:
        there = listing(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
        raise WorkbenchError(f"{path}: {len(found)} matrices; expected is one; it has {there}")
    return found[0]
