"""Arrow's own files (`.arrow`), as Hugging Face's save_to_disk writes them: record batches.

The files are mapped, not read: a batch takes no memory of its own. That holds as long as its
buffers are as they are in the file, so compressed ones are refused; `datasets` writes none.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from pipeline.runtime.errors import damage_named

FILE_MARK = b"ARROW1\0\0"  # of the file format, which is the stream format with an index behind it
END_MARK = b"\xff\xff\xff\xff\0\0\0\0"
# Fields of the tables in Arrow's Message.fbs, by number
_DATA = 1
_HEADER = 2
_COMPRESSION = 3


def read_schema(path: Path) -> pa.Schema:
    """The columns of an arrow file; WorkbenchError where it is damaged."""
    with damage_named("its rows"), _mapped(path) as source, pa.ipc.open_stream(source) as reader:
        schema = reader.schema
        for column in schema:
            _check_names(column)
        return schema


def read_batches(path: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of some columns of an arrow file.

    Args:
        path: a file in the stream format or in the file format.
        names: its columns.

    Yields:
        Its batches with these columns.

    Raises:
        WorkbenchError: a damaged file, one that was cut short, or one that is compressed.
    """
    with damage_named("its rows"), _mapped(path) as source:
        start = source.tell()
        _check_messages(source)
        source.seek(start)
        with pa.ipc.open_stream(source) as reader:
            numbers = sorted(reader.schema.get_field_index(name) for name in names)
            views = [name for name in names if "view" in str(reader.schema.field(name).type)]
        if views:  # many of them can be of the same bytes
            raise ValueError(f"columns of views, which are not read: {', '.join(views)}")
        source.seek(start)
        options = pa.ipc.IpcReadOptions(included_fields=numbers, use_threads=False)
        with pa.ipc.open_stream(source, options=options) as reader:
            for batch in reader:
                batch.validate(full=True)
                yield batch


def _check_names(field: pa.Field) -> None:
    """Read all names of a nested field: UnicodeDecodeError where one is no text."""
    str(field.name)
    for number in range(0 if pa.types.is_dictionary(field.type) else field.type.num_fields):
        _check_names(field.type.field(number))


@contextmanager
def _mapped(path: Path) -> Iterator[pa.MemoryMappedFile]:
    """The bytes of a file, from its first message on."""
    with pa.memory_map(str(path)) as source:
        if source.read(len(FILE_MARK)) != FILE_MARK:
            source.seek(0)
        yield source


def _check_messages(source: pa.MemoryMappedFile) -> None:
    """Read all messages' headers; ValueError for compressed ones and for a missing end mark."""
    for message in pa.ipc.MessageReader.open_stream(source):
        if _is_compressed(message):
            raise ValueError("compressed record batches, which are not read")
    end = source.tell()
    source.seek(max(0, end - len(END_MARK)))
    if source.read(len(END_MARK)) != END_MARK:
        raise ValueError(f"cut short: no end mark at byte {end:,}")


def _is_compressed(message: pa.ipc.Message) -> bool:
    """Whether a message holds a record batch or a dictionary whose buffers are compressed."""
    if message.type not in ("record batch", "dictionary"):
        return False
    data = message.metadata.to_pybytes()
    table = _target(data, 0)
    places = [_HEADER, _DATA] if message.type == "dictionary" else [_HEADER]
    for number in places:
        place = _field(data, table, number)
        if place is None:
            raise ValueError("a message without a header")
        table = _target(data, place)
    return _field(data, table, _COMPRESSION) is not None


def _target(data: bytes, place: int) -> int:
    """Where an offset of a flatbuffer leads."""
    return place + int(struct.unpack_from("<I", data, place)[0])


def _field(data: bytes, table: int, number: int) -> int | None:
    """Where a field of a flatbuffer's table lies; None where the table has none."""
    layout = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, layout)[0]
    slot = 4 + 2 * number
    offset = struct.unpack_from("<H", data, layout + slot)[0] if slot < size else 0
    return table + int(offset) if offset else None
