"""Arrays of floats in numpy's files, from outside: mapped or streamed, never unpickled.

Sizes are compared with the file before anything is allocated: a header may promise any shape.
"""

import math
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy_format

from pipeline.runtime.errors import WorkbenchError

_READERS: Mapping[tuple[int, int], Any] = MappingProxyType(
    {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
)


# What numpy was seen to raise for headers that it did not write.
DAMAGE = (
    ValueError,
    LookupError,
    TypeError,
    SyntaxError,
    RecursionError,
    MemoryError,
    ArithmeticError,
    AttributeError,
    tokenize.TokenError,
)
# What zipfile was seen to raise for files that are damaged, encrypted or packed in another way.
ZIP_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError)


class Header(NamedTuple):
    """What an array's file begins with; offset: bytes before the values."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of the file that such an array takes."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


def mapped_npy(path: Path, dims: int) -> np.ndarray:
    """Map an array of floats with `dims` dimensions, in C order.

    Raises WorkbenchError naming the file when it is no .npy, holds pickled objects or other types,
    has another number of dimensions, or is shorter or longer than its header says.
    """
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file", "set regions.path to the folder that has it")
    with open(path, "rb") as handle:
        header = read_header(handle, str(path))
    check_floats(header, dims, path.stat().st_size, str(path))
    return np.memmap(path, header.dtype, "r", header.offset, header.shape)


def read_header(handle: IO[bytes], place: str) -> Header:
    """The header of an array, the handle left before its values.

    Args:
        handle: at the beginning.
        place: what messages begin with.

    Raises:
        WorkbenchError: it is no .npy.
    """
    try:
        version = npy_format.read_magic(handle)
        shape, fortran, dtype = _READERS[version](handle)
    except DAMAGE as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise WorkbenchError(f"{place}: not a .npy file: {first}") from None
    return Header(shape, fortran, dtype, handle.tell())


def check_floats(header: Header, dims: int, found: int, place: str) -> None:
    """Refuse an array that is not of floats, not in C order or not as long as its header says.

    Args:
        header: of the array.
        dims: number of dimensions it must have.
        found: bytes that are there, the header's included.
        place: what messages begin with.

    Raises:
        WorkbenchError: it is such an array.
    """
    check_plain(header, place)
    if header.dtype.kind != "f" or header.dtype.itemsize > 8:
        hint = "save the values as float32" if header.dtype.kind in "iub" else ""
        raise WorkbenchError(f"{place}: values of type {header.dtype}; expected are floats", hint)
    if len(header.shape) != dims or header.fortran or min(header.shape) < 1:
        order = " in Fortran order" if header.fortran else ""
        raise WorkbenchError(
            f"{place}: shape {header.shape}{order}; expected are {dims} dimensions"
        )
    check_size(header, found, place)


def check_plain(header: Header, place: str, plain: str = "float32") -> None:
    """Refuse an array of objects: they are pickled, and a pickle can run code.

    Args:
        header: of the array.
        place: what messages begin with.
        plain: the type that it should have, for the hint.

    Raises:
        WorkbenchError: it is such an array.
    """
    if header.dtype.hasobject:
        raise WorkbenchError(
            f"{place}: holds pickled objects, which could run code; not read",
            f"save the array again with a plain type, as {plain}",
        )


def check_size(header: Header, found: int, place: str) -> None:
    """Refuse an array that is shorter or longer than its header says.

    Args:
        header: of the array.
        found: bytes that are there, the header's included.
        place: what messages begin with.

    Raises:
        WorkbenchError: it is such an array.
    """
    if header.nbytes != found:
        raise WorkbenchError(
            f"{place}: {found:,} bytes; its header promises shape {header.shape}, which takes "
            f"{header.nbytes:,}",
            "copy or unpack the file again",
        )
