"""The members of a tar file in order, from a stream, each step held against the file's real size.

tarfile itself ends at a damaged header as at a proper end, keeps extended headers of any length in
memory and can be sent back and forth by negative sizes; only its parser of one header is used here.
"""

import os
import tarfile
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

BLOCK = tarfile.BLOCKSIZE
LONGEST = 1 << 20  # bytes of an extended header, which holds a name and times


class DamagedTar(Exception):
    """Where and why a tar file cannot be read on."""


class Member(NamedTuple):
    """A member.

    Attributes:
        name: as in the archive, surrogates for bytes that are not UTF-8.
        size: bytes of its content, 0 for what has none.
        offset: of the content in the file, bytes.
        kind: file, folder or other (links, devices, pipes).
    """

    name: str
    size: int
    offset: int
    kind: str


def read_members(stream: BinaryIO) -> Iterator[Member]:
    """The members of an uncompressed tar file (ustar, GNU or pax), until its end mark.

    The stream may be moved between two members.

    Raises:
        DamagedTar: a header that cannot be read, a member beyond the end of the file, no end mark.
    """
    length = os.fstat(stream.fileno()).st_size
    offset = 0
    extended: dict[str, str] = {}
    while True:
        stream.seek(offset)
        block = stream.read(BLOCK)
        if len(block) == BLOCK and not any(block):
            return
        header = _header(block, offset)
        size = _size(header, extended, offset)
        start, end = offset + BLOCK, offset + BLOCK + size
        if end > length:
            raise DamagedTar(f"{end - length:,} bytes of the member at byte {offset:,} are missing")
        offset = start + -(-size // BLOCK) * BLOCK
        if header.type == tarfile.XGLTYPE:
            continue
        if header.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME):
            extended |= _extended(stream, header.type, size)
            continue
        if header.type == tarfile.GNUTYPE_LONGLINK:
            continue
        yield Member(extended.get("path", header.name), size, start, _kind(header))
        extended = {}


def _header(block: bytes, offset: int) -> tarfile.TarInfo:
    if len(block) < BLOCK:
        raise DamagedTar(f"it ends at byte {offset + len(block):,} without an end mark")
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.TarError as error:
        raise DamagedTar(f"no header at byte {offset:,} ({error})") from None


def _size(header: tarfile.TarInfo, extended: dict[str, str], offset: int) -> int:
    """Bytes of content; links, folders and devices have none whatever their header says."""
    sparse = any(key.startswith("GNU.sparse") for key in extended)
    if sparse or header.type == tarfile.GNUTYPE_SPARSE:
        raise DamagedTar(f"the member at byte {offset:,} is sparse, which is not read")
    if header.type in tarfile.SUPPORTED_TYPES and not header.isreg() and not _is_extension(header):
        return 0
    text = "" if _is_extension(header) else extended.get("size", "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 20):
        raise DamagedTar(f"the member at byte {offset:,} has the size {text[:30]!r}")
    size = int(text) if text else header.size
    if size < 0 or (_is_extension(header) and size > LONGEST):
        raise DamagedTar(f"the header at byte {offset:,} has the size {size:,}")
    return size


def _is_extension(header: tarfile.TarInfo) -> bool:
    names = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
    return header.type in (*names, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)


def _extended(stream: BinaryIO, kind: bytes, size: int) -> dict[str, str]:
    """What an extended header says of the next member."""
    content = stream.read(size)
    if kind == tarfile.GNUTYPE_LONGNAME:
        return {"path": content.split(b"\0")[0].decode("utf-8", "surrogateescape")}
    records = {}
    while content.strip(b"\0"):
        digits, _, _ = content[:20].partition(b" ")
        if not digits.isdigit() or not len(digits) + 2 < int(digits) <= len(content):
            raise DamagedTar("an extended header is no list of records")
        record = content[len(digits) + 1 : int(digits) - 1]
        content = content[int(digits) :]
        key, _, value = record.partition(b"=")
        records[key.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
    return records


def _kind(header: tarfile.TarInfo) -> str:
    return "file" if header.isreg() else "folder" if header.isdir() else "other"
