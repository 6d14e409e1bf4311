"""The members of a tar file in order, from a stream, held against the file's real size.

tarfile ends at a damaged header as at a proper end, so the end mark is looked for.
"""

import os
import tarfile
from collections.abc import Iterator
from typing import BinaryIO


class DamagedTar(Exception):
    """Where and why a tar file cannot be read on."""


def read_members(stream: BinaryIO) -> Iterator[tarfile.TarInfo]:
    """The members of an uncompressed tar file (ustar, GNU or pax) until its end mark; the stream
    may be moved between two. Names have surrogates for bytes that are not UTF-8. DamagedTar for an
    unreadable header, a sparse member, one cut short, no end mark."""
    length = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    try:
        with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8") as archive:
            while info := archive.next():
                archive.members = []  # type: ignore[attr-defined]  # it would keep them all
                if info.issparse() or any(key.startswith("GNU.sparse") for key in info.pax_headers):
                    raise ValueError(f"member at byte {info.offset:,}: sparse, which is not read")
                if info.size < 0 or (info.isreg() and info.offset_data + info.size > length):
                    raise ValueError(f"member at byte {info.offset:,}: cut short")
                yield info
            end = archive.offset
    except (tarfile.TarError, ValueError, LookupError, ArithmeticError, MemoryError,
            RecursionError, OSError) as error:  # fmt: skip
        raise DamagedTar(str(error) or type(error).__name__) from None
    stream.seek(end)
    mark = stream.read(tarfile.BLOCKSIZE)
    if len(mark) < tarfile.BLOCKSIZE or any(mark):
        raise DamagedTar(f"no header and no end mark at byte {end:,}")
