"""Arrow's arrays as Python's values, where a value that a file stores once stays one value.

A dictionary of Arrow holds every different value once: a file of a few kilobytes can have a million
rows of a long text. `to_pylist` would copy it for each row.
"""

from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.features.arrays.parquet import is_list


def python_values(array: pa.Array, fields: Collection[str] = ()) -> list[Any]:
    """The values of an array: lists and dictionaries of them where it is nested.

    Args:
        array: (N,) of texts, bytes or numbers, or of lists and structs of these.
        fields: the fields of structs that are kept; none named: all.

    Returns:
        N values, None for a null; equal values of a dictionary are one object.
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        used = pc.unique(array.indices).drop_null()
        different = array.dictionary.take(used).to_pylist()
        value_of = dict(zip(used.to_pylist(), different, strict=True))
        return [value_of.get(index) for index in array.indices.to_pylist()]
    if pa.types.is_struct(kind):
        return _records(array, fields)
    if is_list(kind):
        flat = python_values(array.flatten(), fields)
        return _cut(flat, pc.list_value_length(array).to_pylist())
    values: list[Any] = array.to_pylist()
    return values


def _records(array: pa.StructArray, fields: Collection[str]) -> list[Any]:
    """The records of a struct as dictionaries, None where the whole record is null."""
    names = [field.name for field in array.type]
    columns = {
        name: python_values(column, fields)
        for name, column in zip(names, array.flatten(), strict=True)
        if not fields or name in fields
    }
    cells = zip(*columns.values(), strict=True) if columns else [()] * len(array)
    records = [dict(zip(columns, own, strict=True)) for own in cells]
    if not array.null_count:
        return records
    return [
        record if is_there else None
        for record, is_there in zip(records, array.is_valid().to_pylist(), strict=True)
    ]


def _cut(flat: list[Any], lengths: list[int | None]) -> list[Any]:
    """Lists of these lengths, one after the other; None where the length is."""
    lists: list[Any] = []
    start = 0
    for length in lengths:
        if length is None:
            lists.append(None)
        else:
            lists.append(flat[start : start + length])
            start += length
    return lists
