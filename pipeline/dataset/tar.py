"""The members of a tar file in order, from a stream, held against the file's real size.

tarfile ends at a damaged header as at a proper end, so the end mark is looked for.
"""

import os
import tarfile
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple


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
    try:
        with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8") as archive:
            while info := archive.next():
                archive.members = []  # type: ignore[attr-defined]  # it would keep them all
                yield _member(info, length)
            end = archive.offset
    except (tarfile.TarError, ValueError, LookupError, ArithmeticError, MemoryError,
            RecursionError, OSError) as error:  # fmt: skip
        raise DamagedTar(str(error) or type(error).__name__) from None
    stream.seek(end)
    mark = stream.read(tarfile.BLOCKSIZE)
    if len(mark) < tarfile.BLOCKSIZE or any(mark):
        raise DamagedTar(f"no header and no end mark at byte {end:,}")


def _member(info: tarfile.TarInfo, length: int) -> Member:
    if info.issparse() or any(key.startswith("GNU.sparse") for key in info.pax_headers):
        raise DamagedTar(f"the member at byte {info.offset:,} is sparse, which is not read")
    kind = "file" if info.isreg() else "folder" if info.isdir() else "other"
    size = info.size if kind == "file" else 0
    missing = info.offset_data + size - length
    if size < 0 or missing > 0:
        what = f"has the size {size:,}" if size < 0 else f"lacks its last {missing:,} bytes"
        raise DamagedTar(f"the member at byte {info.offset:,} {what}")
    return Member(info.name, size, info.offset_data, kind)
