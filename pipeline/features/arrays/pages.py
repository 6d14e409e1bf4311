"""The pages of a parquet file by their headers: how much memory their values can ask for.

The footer says how large columns are, but nothing holds it to that. A reader allocates what the
header of each page says, so the headers are read before: they are structs of Thrift's compact
protocol (parquet.thrift of the Parquet format).
"""

from collections.abc import Sequence
from typing import Any, BinaryIO

from pyarrow.parquet import RowGroupMetaData

MOST_BYTES = 1 << 26  # of all pages of some columns of a row group, unpacked
MOST_VALUES = 1 << 22  # in one column of it
MOST_PAGES = 10_000
LONGEST_HEADER = 1 << 16  # bytes
DEEPEST = 8  # structs in structs

# Fields of a page's header, and of the header of its kind that it holds
_UNPACKED = 2
_PACKED = 3
_KINDS = {5: 2, 7: 2, 8: 4}  # data page, dictionary, data page of version 2: field of the encoding
_COUNT = 1
# Plain, dictionaries, runs, lengths: no value is made of another's bytes, as DELTA_BYTE_ARRAY does
_ENCODINGS = {0, 2, 3, 4, 5, 6, 8}


def unpacked_size(stream: BinaryIO, group: RowGroupMetaData, columns: Sequence[int]) -> int | None:
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
            size = _column_size(stream, group.column(column))
        except (ValueError, LookupError, OSError):
            return None  # reading the values says what is wrong with the file
        if size is None:
            return None
        total += size
    return total if total <= MOST_BYTES else None


def _column_size(stream: BinaryIO, column: Any) -> int | None:
    """The bytes of one column's pages unpacked; None above the bounds or for another encoding."""
    place = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < place:
        place = column.dictionary_page_offset
    end = place + column.total_compressed_size
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
        Its fields by number: integers, and structs as dictionaries; None for all others. And the
        place after it.

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
    if kind == 12:
        return read_struct(data, place, depth + 1)
    raise ValueError(f"a value of kind {kind}, which headers of pages do not have")


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
