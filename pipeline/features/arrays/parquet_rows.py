"""The rows of a parquet file in record batches, in bounded memory."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.features.arrays.pages import read_row_groups, unpacked_size
from pipeline.features.arrays.parquet import opened
from pipeline.runtime.errors import damage_named

BATCH_BYTES = 1 << 23  # of a batch of usual rows
MOST_ROWS = 1 << 15  # in a batch


def read_schema(path: Path) -> pa.Schema:
    """The columns of a parquet file; WorkbenchError where it is damaged."""
    with damage_named("its rows"), opened(path) as file:
        return file.schema_arrow


def read_batches(path: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of some columns of a parquet file.

    A repeated value is stored once: as it is, a batch of rows of a small file could ask for any
    amount of memory. So texts and bytes are dictionaries, which hold a value once, in batches of
    row groups whose pages are known to fit; of all others every row is a batch of its own. In
    memory is then a page of the file, 2 GiB at most.

    Args:
        path: the file.
        names: its columns.

    Yields:
        Batches with these columns, whose texts and bytes may be dictionaries.

    Raises:
        WorkbenchError: a damaged file, or one with more or fewer rows than it announces.
    """
    with damage_named("its rows"), opened(path) as file, open(path, "rb") as stream:
        leaves = _leaves(file.schema, names)
        count = 0
        groups = read_row_groups(stream)
        with opened(path, list(leaves)) as shared:
            for number, group in enumerate(groups):
                size = unpacked_size(stream, group, list(leaves.values()))
                rows = 1
                source = file
                if size is not None and _holds_values_once(shared, names):
                    rows = max(1, min(MOST_ROWS, BATCH_BYTES * group.rows // max(1, size)))
                    source = shared if rows > 1 else file
                for batch in source.iter_batches(
                    rows, row_groups=[number], columns=list(names), use_threads=False
                ):
                    batch.validate(full=True)
                    yield batch
                    count += len(batch)
        if count != file.metadata.num_rows:
            raise ValueError(f"{file.metadata.num_rows:,} rows announced, {count:,} found")


def _leaves(schema: pq.ParquetSchema, names: Sequence[str]) -> dict[str, int]:
    """The columns of the file that named columns consist of, by their paths: their numbers."""
    paths = {schema.column(number).path: number for number in range(len(schema))}
    return {
        path: number
        for path, number in paths.items()
        if any(path == name or path.startswith(f"{name}.") for name in names)
    }


def _holds_values_once(file: pq.ParquetFile, names: Sequence[str]) -> bool:
    """Whether the values of some columns are dictionaries, or numbers."""
    kinds = [kind for name in names for kind in _leaf_types(file.schema_arrow.field(name).type)]
    return all(map(_is_number_or_dictionary, kinds))


def _leaf_types(kind: pa.DataType) -> list[pa.DataType]:
    """The types of the values at the ends of a nested type."""
    if pa.types.is_dictionary(kind) or not pa.types.is_nested(kind):
        return [kind]
    fields = [kind.field(number) for number in range(kind.num_fields)]
    return [leaf for field in fields for leaf in _leaf_types(field.type)]


def _is_number_or_dictionary(kind: pa.DataType) -> bool:
    types = pa.types
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return bool(is_number or types.is_dictionary(kind) or types.is_null(kind))
