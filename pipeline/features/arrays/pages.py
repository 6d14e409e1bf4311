"""The pages of a parquet file by their headers: how much memory their values can ask for.

The footer says how large columns are, but nothing holds it to that. A reader allocates what the
header of each page says, so the headers are read before: they are structs of Thrift's compact
protocol (parquet.thrift of the Parquet format). So is the footer, of which the columns are read
here, too: pyarrow ends the process where it is asked for a damaged one ("Definition level histogram
size mismatch", pyarrow 26).
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

MOST_BYTES = 1 << 26  # of all pages of some columns of a row group, unpacked
MOST_VALUES = 1 << 22  # in one column of it
MOST_PAGES = 10_000
LONGEST_HEADER = 1 << 16  # bytes
LONGEST_FOOTER = 1 << 26
DEEPEST = 8  # structs in structs
_TAIL = 8  # bytes behind the footer: its length in four, and four letters

# Fields of the footer, of a row group in it, and of a column of that
_ROW_GROUPS = 4
_COLUMNS = 1
_ROWS = 3
_METADATA = 3
_COMPRESSED = 7
_DATA_PLACE = 9
_DICTIONARY_PLACE = 11

# Fields of a page's header, and of the header of its kind that it holds
_UNPACKED = 2
_PACKED = 3
_KINDS = {5: 2, 7: 2, 8: 4}  # data page, dictionary, data page of version 2: field of the encoding
_COUNT = 1
# Plain, dictionaries, runs, lengths: no value is made of another's bytes, as DELTA_BYTE_ARRAY does
_ENCODINGS = {0, 2, 3, 4, 5, 6, 8}


class RowGroup(NamedTuple):
    """What the footer says of a row group: its rows, and its columns by the numbers of their
    fields."""

    rows: int
    columns: Sequence[Mapping[int, Any]]


def read_row_groups(stream: BinaryIO) -> list[RowGroup]:
    """The row groups of a parquet file, as its footer has them.

    Args:
        stream: the file.

    Returns:
        The row groups in their order.

    Raises:
        ValueError: a footer that is longer than LONGEST_FOOTER, or no such struct.
        LookupError: one that is cut, or lacks a field.
    """
    end = stream.seek(-_TAIL, os.SEEK_END)
    length = int.from_bytes(stream.read(4), "little")
    if length > min(LONGEST_FOOTER, end):
        raise ValueError(f"a footer of {length:,} bytes")
    stream.seek(end - length)
    footer, _ = read_struct(stream.read(length))
    groups = [
        RowGroup(group[_ROWS], [column[_METADATA] for column in group[_COLUMNS]])
        for group in footer[_ROW_GROUPS]
    ]
    for group in groups:
        if not isinstance(group.rows, int) or not all(
            isinstance(own, dict) for own in group.columns
        ):
            raise ValueError("a footer whose fields are of other kinds")
    return groups


def unpacked_size(stream: BinaryIO, group: RowGroup, columns: Sequence[int]) -> int | None:
    """The bytes that columns of a row group have when they are unpacked, a repeated value once.

    Args:
        stream: the parquet file.
        group: the row group as the footer describes it.
        columns: the numbers of the columns.

    Returns:
        The sum over all their pages; None where it cannot be said, or is above MOST_BYTES.
    """
    total = 0
    for column in columns:
        try:
            size = _column_size(stream, group.columns[column])
        except (ValueError, LookupError, TypeError, OSError):
            return None  # reading the values says what is wrong with the file
        if size is None:
            return None
        total += size
    return total if total <= MOST_BYTES else None


def _column_size(stream: BinaryIO, column: Mapping[int, Any]) -> int | None:
    """The bytes of one column's pages unpacked; None above the bounds or for another encoding."""
    place = column[_DATA_PLACE]
    if 0 < column.get(_DICTIONARY_PLACE, 0) < place:
        place = column[_DICTIONARY_PLACE]
    end = place + column[_COMPRESSED]
    total = 0
    values = 0
    for _ in range(MOST_PAGES):
        if place >= end:
            return total
        stream.seek(place)
        header, length = read_struct(stream.read(min(LONGEST_HEADER, end - place)))
        kind = next((kind for kind in _KINDS if isinstance(header.get(kind), dict)), None)
        if kind is None or header[kind][_KINDS[kind]] not in _ENCODINGS:
            return None
        sizes = (header[_UNPACKED], header[kind][_COUNT], header[_PACKED])
        if not all(isinstance(size, int) and size >= 0 for size in sizes):
            return None
        total += sizes[0]
        values += sizes[1]
        if total > MOST_BYTES or values > MOST_VALUES:
            return None
        place += length + sizes[2]
    return None


def read_struct(data: bytes, place: int = 0, depth: int = 0) -> tuple[dict[int, Any], int]:
    """A struct of Thrift's compact protocol.

    Args:
        data: bytes that it lies in.
        place: where it begins.
        depth: in how many other structs it lies.

    Returns:
        Its fields by number: integers, structs as dictionaries, and lists of these; None for all
        others. And the place after it.

    Raises:
        ValueError: not of that protocol, or nested too deeply.
        IndexError: the data end before the struct does.
    """
    if depth > DEEPEST:
        raise ValueError(f"more than {DEEPEST} structs in one another")
    fields: dict[int, Any] = {}
    number = 0
    while data[place]:
        step, kind = divmod(data[place], 16)
        place += 1
        if step:
            number += step
        else:
            number, place = _integer(data, place)
        fields[number], place = _value(data, place, kind, depth=depth)
    return fields, place + 1


def _value(data: bytes, place: int, kind: int, depth: int) -> tuple[Any, int]:
    """A value of a kind and the place after it."""
    if kind in (1, 2):  # true, false
        return None, place
    if kind == 3:
        return None, place + 1
    if kind in (4, 5, 6):
        return _integer(data, place)
    if kind == 7:
        return None, place + 8
    if kind == 8:
        length, place = _varint(data, place)
        return None, place + length
    if kind in (9, 10):
        return _list(data, place, depth)
    if kind == 12:
        return read_struct(data, place, depth + 1)
    raise ValueError(f"a value of kind {kind}, which parquet files do not have")


def _list(data: bytes, place: int, depth: int) -> tuple[list[Any], int]:
    """A list and the place after it: its length and its kind in one byte, or the length behind."""
    length, kind = divmod(data[place], 16)
    place += 1
    if length == 15:
        length, place = _varint(data, place)
    if length > len(data):
        raise ValueError(f"a list of {length:,} values in {len(data):,} bytes")
    if depth > DEEPEST:
        raise ValueError(f"more than {DEEPEST} lists in one another")
    values = []
    for _ in range(length):
        # a truth takes a byte in a list, where a field's is in its kind
        value, place = (None, place + 1) if kind in (1, 2) else _value(data, place, kind, depth + 1)
        values.append(value)
    return values, place


def _integer(data: bytes, place: int) -> tuple[int, int]:
    """A signed number, written as 0, -1, 1, -2, ..., and the place after it."""
    number, place = _varint(data, place)
    return (number >> 1) ^ -(number & 1), place


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and the place after it."""
    number = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
    raise ValueError("a number of more than ten bytes")
