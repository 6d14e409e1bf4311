"""Parquet files: a column of ids, and one of lists that are all equally long."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.embeddings.ids import ROWS
from pipeline.embeddings.source import (
    MAX_ID,
    Block,
    Embeddings,
    check_shape,
    other_type,
    rows_at_once,
    stored_as,
)
from pipeline.runtime.errors import WorkbenchError, listing

FLOATS = {pa.float16(): np.float16, pa.float32(): np.float32, pa.float64(): np.float64}


def read_parquet(path: Path, ids: str, features: str) -> Embeddings:
    """Vectors and ids in a parquet file.

    Args:
        path: of the file.
        ids: name of the column of ids, texts or whole numbers.
        features: name of the column of lists.

    Raises:
        WorkbenchError: a damaged file, or one without such columns.
    """
    place = f"{path}, column {features}"
    with _opened(path, ids) as file:
        schema = file.schema_arrow
        for name in (ids, features):
            if name not in schema.names:
                raise WorkbenchError(
                    f"{path}: no column {name!r}; it has {listing(schema.names)}",
                    "name the columns of ids and vectors under `file` in params.yaml",
                )
        kind = schema.field(features).type
        if not _is_list(kind) or kind.value_type not in FLOATS:
            raise other_type(place, kind)
        width = _width(place, file, features)
        shape = check_shape(place, (file.metadata.num_rows, width))
        found = _ids(f"{path}, column {ids}", file, ids)
    blocks = partial(_blocks, path, ids, features, width)
    return Embeddings(path, found, shape, stored_as(FLOATS[kind.value_type]), blocks)


def _blocks(path: Path, ids: str, name: str, width: int) -> Iterator[Block]:
    start = 0
    with _opened(path, ids) as file:
        for batch in file.iter_batches(rows_at_once(width), columns=[name], use_threads=False):
            batch.validate(full=True)
            column = batch.column(0)
            _check_rows(f"{path}, column {name}", column, width, start)
            yield column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), width)
            start += len(column)


def _check_rows(place: str, column: Any, width: int, start: int) -> None:
    """Raise WorkbenchError naming the first row that is not a list of `width` values."""
    if column.null_count:
        row = column.is_null().to_numpy(zero_copy_only=False).argmax()
        raise WorkbenchError(f"{place}, row {start + row:,}: no vector")
    lengths = np.asarray(pa.compute.list_value_length(column))
    if (lengths != width).any():
        row = int((lengths != width).argmax())
        raise WorkbenchError(
            f"{place}, row {start + row:,}: {lengths[row]:,} values; on average there are {width:,}"
        )


def _width(place: str, file: pq.ParquetFile, name: str) -> int:
    """D as the numbers of values and rows say it, before any of them is read."""
    _check_groups(place, file.metadata)
    values = rows = 0
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        columns = (group.column(place) for place in range(group.num_columns))
        values += sum(c.num_values for c in columns if c.path_in_schema.split(".")[0] == name)
        rows += group.num_rows
    if not rows or values % rows:
        raise WorkbenchError(f"{place}: {values:,} values in {rows:,} rows: lists differ in length")
    return values // rows


def _check_groups(place: str, metadata: pq.FileMetaData) -> None:
    """Refuse a file whose row groups pyarrow cannot describe.

    For some damage it throws what nobody catches, which ends the process: so a child looks first.
    """
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            for number in range(metadata.num_row_groups):
                group = metadata.row_group(number)
                for column in range(group.num_columns):
                    group.column(column)
        finally:
            os._exit(0)  # an exception is met again by the parent
    if os.waitpid(pid, 0)[1]:
        raise WorkbenchError(f"{place}: damaged: its row groups cannot be read")


def _ids(place: str, file: pq.ParquetFile, name: str) -> list[str]:
    """Texts or whole numbers; as a dictionary, since a repeated value is stored once."""
    found: list[str] = []
    for batch in file.iter_batches(ROWS, columns=[name], use_threads=False):
        batch.validate(full=True)
        column = batch.column(0)
        if column.null_count:
            row = len(found) + int(column.is_null().to_numpy(zero_copy_only=False).argmax())
            raise WorkbenchError(f"{place}, row {row:,}: no id")
        if pa.types.is_dictionary(column.type):
            _check_texts(place, column.dictionary)
        elif not pa.types.is_integer(column.type):
            raise WorkbenchError(
                f"{place}: type {column.type}; expected are texts or whole numbers"
            )
        found += map(str, column.to_pylist())
    return found


def _check_texts(place: str, texts: Any) -> None:
    kind = texts.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise WorkbenchError(f"{place}: type {kind}; expected are texts or whole numbers")
    longest = pa.compute.max(pa.compute.binary_length(texts)).as_py() or 0
    if longest > MAX_ID:
        raise WorkbenchError(f"{place}: an id of {longest:,} bytes")


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


@contextmanager
def _opened(path: Path, ids: str) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(
            path,
            buffer_size=1 << 20,
            pre_buffer=False,
            page_checksum_verification=True,
            read_dictionary=[ids],
        ) as file:
            yield file
    except KeyError:  # read_dictionary names a column that is not there
        raise WorkbenchError(
            f"{path}: no column {ids!r}; it has {listing(pq.read_schema(path).names)}",
            "name the columns of ids and vectors under `file` in params.yaml",
        ) from None
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        first = " ".join(str(error).split())[:200]
        raise WorkbenchError(f"{path}: cut short, damaged or not parquet: {first}") from None
