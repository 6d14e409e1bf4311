"""MATLAB's files of version 4 to 7. scipy ends the process at an unknown type of data, so the types
are checked first: a file is a header and elements of a type, a size and that many bytes."""

import struct
import zlib
from collections.abc import Collection
from pathlib import Path

import numpy as np

from pipeline.arrays.file import damage_named
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.first_bytes import explain

HEADER = 128  # bytes
ORDERS = {b"IM": "<", b"MI": ">"}
MATRIX, COMPRESSED = 14, 15
VALUES = (1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18)  # numbers and characters
MAX_UNPACKED = 1 << 31  # bytes


def load_mat(path: Path, names: Collection[str]) -> dict[str, np.ndarray]:
    from scipy.io import loadmat

    other = explain(path, expected=("matlab", "hdf5", "empty", "zeros"))
    if other is not None:
        raise other
    with damage_named(str(path)):
        content = memoryview(path.read_bytes())
        order = ORDERS.get(bytes(content[HEADER - 2 : HEADER]))
        if order and all(content[:4]):  # version 4 begins with a number
            _check(content[HEADER:], order)
        try:
            arrays: dict[str, np.ndarray] = loadmat(path, variable_names=tuple(names))
        except NotImplementedError:
            raise WorkbenchError(
                f"{path}: of MATLAB 7.3, another format", "save it with: save(..., '-v7')"
            ) from None
        return arrays


def _check(content: memoryview, order: str) -> None:
    """Raise ValueError where an element has no known type, or is cut off."""
    at = 0
    while at + 8 <= len(content):
        kind, size = struct.unpack_from(f"{order}II", content, at)
        start = at + 8
        if kind >> 16:  # up to four bytes, in the place of the size
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
        element = content[start : start + size]
        if len(element) < size or (start == at + 4 and size > 4):
            raise ValueError(f"an element of {size:,} bytes is cut off")
        if kind == COMPRESSED:
            _check(memoryview(zlib.decompressobj().decompress(element, MAX_UNPACKED)), order)
        elif kind == MATRIX:
            _check(element, order)
        elif kind not in VALUES:
            raise ValueError(f"data of the type {kind}, which there is not")
        at = start + size
        at += 0 if kind == COMPRESSED else -at % 8
