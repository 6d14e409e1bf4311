"""How each format of matrix_file is read: shape and ids at once, values some rows at a time.

Files from outside are hostile: nothing is unpickled, no link is followed, and lengths are compared
before anything is allocated.
"""

import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError, safe_open

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.storage.hdf5 import DAMAGE, opened
from pipeline.storage.npy import Header, check_plain, check_size, read_header

MAX_ID_BYTES = 1 << 30
NUMBERS = "fiu"

Blocks = Callable[[int], Iterator[np.ndarray]]  # rows of a block -> blocks of consecutive rows


class Opened(NamedTuple):
    """What a file has: shape of its one matrix, its rows, lists of ids by name."""

    shape: tuple[int, ...]
    read: Blocks
    ids: Mapping[str, np.ndarray]


def open_format(path: Path, names: Sequence[str]) -> Opened:
    """Open a file by its ending; WorkbenchError when it has not one matrix, or is damaged."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise WorkbenchError(f"{path}: allowed endings are {listing(READERS)}")
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file")
    with _damage_named(path):
        return reader(path, names)


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
        row = header.shape[1] * header.dtype.itemsize
        with _damage_named(path), zipfile.ZipFile(path) as archive, archive.open(member) as handle:
            read_header(handle, str(path))
            left = header.shape[0]
            while left:
                data = handle.read(min(height, left) * row)
                values = np.frombuffer(data, header.dtype).reshape(-1, header.shape[1])
                left -= len(values)
                yield values

    return Opened(header.shape, read, ids)


def _array(archive: zipfile.ZipFile, member: str, header: Header, place: str) -> np.ndarray:
    if len(header.shape) != 1 or header.nbytes > MAX_ID_BYTES:
        raise WorkbenchError(f"{place}: shape {header.shape}; expected is a list of ids")
    with archive.open(member) as handle:
        handle.read(header.offset)
        return np.frombuffer(handle.read(), header.dtype)


def _h5(path: Path, names: Sequence[str]) -> Opened:
    with opened(path) as file:
        found = {name: file[name] for name in file if _is_plain(file, name)}
        ids = {name: _h5_ids(found[name], path) for name in names if name in found}
        name = _only(path, {n: data.shape for n, data in found.items() if n not in ids})
        shape, dtype = found[name].shape, found[name].dtype
    if dtype.kind not in NUMBERS:
        raise WorkbenchError(f"{path}, {name}: values of type {dtype}; expected are numbers")

    def read(height: int) -> Iterator[np.ndarray]:
        with opened(path) as file:
            for start in range(0, shape[0], height):
                yield file[name][start : start + height]

    return Opened(shape, read, ids)


def _is_plain(file: h5py.File, name: str) -> bool:
    """Whether a name is a dataset whose values are in this file."""
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        return False
    data = file[name]
    return isinstance(data, h5py.Dataset) and not data.external and not data.is_virtual


def _h5_ids(data: h5py.Dataset, path: Path) -> np.ndarray:
    if data.ndim != 1 or math.prod(data.shape) * data.dtype.itemsize > MAX_ID_BYTES:
        raise WorkbenchError(f"{path}, {data.name}: shape {data.shape}; expected is a list of ids")
    if h5py.check_string_dtype(data.dtype) is not None:
        return np.array([bytes(value) for value in data[...]])
    values: np.ndarray = data[...]
    return values


def _safetensors(path: Path, names: Sequence[str]) -> Opened:
    with safe_open(path, framework="numpy") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        ids = {name: file.get_tensor(name) for name in names if name in slices}
        shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
        name = _only(path, {n: shape for n, shape in shapes.items() if n not in ids})
        kind = slices[name].get_dtype()
    if kind not in ("F64", "F32", "F16", "I64", "I32", "I16", "I8", "U8"):
        raise WorkbenchError(
            f"{path}, {name}: values of type {kind}, which numpy does not have",
            "save the values as float16 or float32",
        )

    def read(height: int) -> Iterator[np.ndarray]:
        with _damage_named(path), safe_open(path, framework="numpy") as file:
            part, rows = file.get_slice(name), shapes[name][0]
            for start in range(
                0, rows, height
            ):  # a slice that ends behind the last row is an error
                yield part[start : min(start + height, rows)]

    return Opened(shapes[name], read, ids)


def _parquet(path: Path, names: Sequence[str]) -> Opened:
    """A column of lists of numbers, one a row."""
    with pq.ParquetFile(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        lists = [field.name for field in schema if _is_list_of_numbers(field.type)]
        if len(lists) != 1:
            raise WorkbenchError(
                f"{path}: columns {listing(str(field) for field in schema)}; expected is one with "
                "a list of numbers a row"
            )
        there = [name for name in names if name in schema.names]
        ids = {name: _column(file.read([name])[name], f"{path}, {name}") for name in there}
        first = next(file.iter_batches(1, columns=lists), None)
    width = 0 if first is None else len(first.column(0).flatten())

    def read(height: int) -> Iterator[np.ndarray]:
        with _damage_named(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(height, columns=lists):
                column = batch.column(0)
                values = column.flatten()
                lengths = np.asarray(column.value_lengths().fill_null(0))
                if values.null_count or (lengths != width).any():
                    raise WorkbenchError(f"{path}: rows without {width} values each in {lists[0]}")
                yield values.to_numpy(zero_copy_only=False).reshape(-1, width)

    return Opened((rows, width), read, ids)


def _is_list_of_numbers(kind: pa.DataType) -> bool:
    is_list = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(test(kind) for test in is_list):
        return False
    return bool(pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))


def _column(values: pa.ChunkedArray, place: str) -> np.ndarray:
    if values.null_count:
        raise WorkbenchError(f"{place}: {values.null_count} missing values")
    kind = np.int64 if pa.types.is_integer(values.type) else np.str_
    return np.array(values.to_pylist(), kind)


READERS: Mapping[str, Callable[[Path, Sequence[str]], Opened]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".h5": _h5,
    ".hdf5": _h5,
    ".safetensors": _safetensors,
    ".parquet": _parquet,
}


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


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Failures of the libraries as a WorkbenchError with the path."""
    try:
        yield
    except (*DAMAGE, EOFError, zipfile.BadZipFile, SafetensorError, pa.ArrowException) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise WorkbenchError(f"{path}: damaged or no {path.suffix} file: {first}") from None
