"""MATLAB's files of version 5 to 7, checked before scipy reads them: an unknown type of data would
end the process.

A file is a header and elements of a type, a size and that many bytes; a matrix holds elements.
"""

import struct
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipeline.runtime.errors import WorkbenchError

HEADER = 128  # bytes
ORDERS: Mapping[bytes, str] = {b"IM": "<", b"MI": ">"}
MATRIX, COMPRESSED = 14, 15
VALUES = frozenset((1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18))  # numbers and characters
NAME = 2  # of a matrix, among its elements
MAX_DEPTH = 8
MAX_UNPACKED = 1 << 31  # bytes


class Element(NamedTuple):
    """Type and bytes of an element."""

    kind: int
    content: memoryview


def load_mat(path: Path, names: Collection[str]) -> dict[str, np.ndarray]:
    """The variables of some names that a file has.

    Args:
        path: of the file.
        names: of the variables.

    Raises:
        WorkbenchError: a damaged file, or one of MATLAB 7.3, which is HDF5.
    """
    from scipy.io import loadmat

    try:
        content = memoryview(path.read_bytes())
        order = ORDERS.get(bytes(content[HEADER - 2 : HEADER]))
        if order and all(content[:4]):  # version 4 begins with a number
            _check(content[HEADER:], order, names)
        found: dict[str, np.ndarray] = loadmat(path, variable_names=tuple(names))
        return found
    except NotImplementedError:
        raise WorkbenchError(
            f"{path}: of MATLAB 7.3, another format", "save it with: save(..., '-v7')"
        ) from None
    except Exception as error:  # scipy raises nearly any type on damaged files
        raise damaged(path, error) from None


def damaged(path: Path, error: BaseException) -> WorkbenchError:
    """What to say of a file that its reader refuses, in whatever words."""
    first = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return WorkbenchError(f"{path}: damaged, or not such a file: {first}")


def _check(content: memoryview, order: str, names: Collection[str]) -> None:
    """Raise ValueError where a variable of these names has an element of no known type."""
    for element in _elements(content, order):
        if element.kind == COMPRESSED:
            unpacked = zlib.decompressobj().decompress(element.content, MAX_UNPACKED)
            _check(memoryview(unpacked), order, names)
        elif element.kind == MATRIX:
            parts = list(_elements(element.content, order))
            if len(parts) > NAME and bytes(parts[NAME].content).decode("latin-1") in names:
                _check_parts(parts, order)


def _check_parts(parts: list[Element], order: str, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    for part in parts:
        if part.kind == MATRIX:
            _check_parts(list(_elements(part.content, order)), order, depth + 1)
        elif part.kind not in VALUES:
            raise ValueError(f"data of the type {part.kind}, which there is not")


def _elements(content: memoryview, order: str) -> Iterator[Element]:
    at = 0
    while at + 8 <= len(content):
        first, size = struct.unpack_from(f"{order}II", content, at)
        kind, start, most = first, at + 8, len(content) - at - 8
        if first >> 16:  # up to four bytes, in the place of the size
            kind, size, start, most = first & 0xFFFF, first >> 16, at + 4, 4
        if size > most:
            raise ValueError(f"an element of {size:,} bytes is cut off")
        yield Element(kind, content[start : start + size])
        at = start + size
        at += 0 if kind == COMPRESSED else -at % 8
