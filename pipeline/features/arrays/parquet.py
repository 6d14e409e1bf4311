"""Parquet files: columns of numbers, of texts, and of lists of numbers that are equally long."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.features.arrays.file import Array, ArrayFile, Block
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.first_bytes import explain

MAX_TEXT = 1 << 12  # bytes


def opened(path: Path, dictionaries: list[str] | None = None) -> pq.ParquetFile:
    """Open a parquet file, to be closed by `with`.

    Args:
        path: the file.
        dictionaries: columns of texts whose repeated values stay stored once.

    Returns:
        The file, of which nothing but its schema is read yet.

    Raises:
        WorkbenchError: a file of another kind; pyarrow raises its own of damaged ones.
    """
    other = explain(path, expected=("parquet",))
    if other is not None:
        raise other
    return pq.ParquetFile(
        path,
        read_dictionary=dictionaries,
        buffer_size=1 << 20,
        pre_buffer=False,
        page_checksum_verification=True,
    )


def read_parquet(path: Path) -> ArrayFile:
    """The columns of a parquet file that hold numbers, texts or lists of numbers."""
    with opened(path) as file:
        schema = file.schema_arrow
        count = file.metadata.num_rows
    columns = dict(zip(schema.names, schema.types, strict=True))
    kinds = {name: kind for name, kind in columns.items() if is_text(kind) or _is_number(kind)}

    def find(name: str) -> Array | None:
        if name not in kinds:
            return None
        kind = kinds[name]
        place = f"{path}, array {name}"
        if is_text(kind):
            return Array(place, (count,), np.dtype(object), partial(_texts, path, name, place))
        if not is_list(kind):
            dtype = np.dtype(kind.to_pandas_dtype())
            return Array(place, (count,), dtype, partial(_numbers, path, name, place))
        width = _width(path, name, place)
        dtype = np.dtype(kind.value_type.to_pandas_dtype())
        return Array(place, (count, width), dtype, partial(_lists, path, name, place, width))

    return ArrayFile(path, list(kinds), find)


def _texts(path: Path, name: str, place: str, rows: int) -> Iterator[Block]:
    """Texts; as a dictionary, since a repeated value is stored once."""
    for _, column in _columns(path, name, place, rows, [name]):
        lengths = pa.compute.binary_length(column.dictionary)
        longest = pa.compute.max(lengths).as_py() or 0
        if longest > MAX_TEXT:
            raise WorkbenchError(f"{place}: a text of {longest:,} bytes")
        yield np.array(column.to_pylist(), object)


def _numbers(path: Path, name: str, place: str, rows: int) -> Iterator[Block]:
    for _, column in _columns(path, name, place, rows):
        yield column.to_numpy(zero_copy_only=False)


def _lists(path: Path, name: str, place: str, width: int, rows: int) -> Iterator[Block]:
    for start, column in _columns(path, name, place, rows):
        lengths = np.asarray(pa.compute.list_value_length(column))
        if (lengths != width).any():
            row = int((lengths != width).argmax())
            raise WorkbenchError(
                f"{place}, row {start + row:,}: {lengths[row]:,} values; row 0 has {width:,}"
            )
        yield column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), width)


def _width(path: Path, name: str, place: str) -> int:
    for _, column in _columns(path, name, place, 1):
        return len(column[0])
    raise WorkbenchError(f"{place}: no rows")


def _columns(
    path: Path, name: str, place: str, rows: int, dictionaries: list[str] | None = None
) -> Iterator[tuple[int, Any]]:
    """Number of the first row and values of a column, some rows at a time, none of them null."""
    start = 0
    with opened(path, dictionaries) as file:
        for batch in file.iter_batches(rows, columns=[name], use_threads=False):
            batch.validate(full=True)
            column = batch.column(0)
            if column.null_count:
                row = start + int(column.is_null().to_numpy(zero_copy_only=False).argmax())
                raise WorkbenchError(f"{place}, row {row:,}: no value")
            yield start, column
            start += len(column)


def is_list(kind: pa.DataType) -> bool:
    """Whether values of a type are lists."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: pa.DataType) -> bool:
    kind = kind.value_type if is_list(kind) else kind
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are texts, or indexes into a dictionary of texts."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    types = pa.types
    is_any = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return bool(is_any)
