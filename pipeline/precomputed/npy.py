"""One .npy array as a read-only map of its file: no pickle, sizes checked beforehand."""

import math
from pathlib import Path

import numpy as np
from numpy.lib import format as npy_format

from pipeline.errors import WorkbenchError


def mapped_npy(path: Path, dims: int) -> np.ndarray:
    """Map an array of floats with `dims` dimensions, in C order.

    Raises WorkbenchError naming the file when it is no .npy, holds pickled objects or other types,
    has another number of dimensions, or is shorter or longer than its header says.
    """
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file", "set regions.path to the folder that has it")
    shape, fortran, dtype, offset = _header(path)
    if dtype.hasobject:
        raise WorkbenchError(
            f"{path}: holds pickled objects, which could run code; not read",
            "save the array again with a plain type, as float32",
        )
    if dtype.kind != "f" or dtype.itemsize > 8:
        raise WorkbenchError(f"{path}: values of type {dtype}; expected are floats")
    if len(shape) != dims or fortran or min(shape) < 1:
        order = " in Fortran order" if fortran else ""
        raise WorkbenchError(f"{path}: shape {shape}{order}; expected are {dims} dimensions")
    expected, found = offset + math.prod(shape) * dtype.itemsize, path.stat().st_size
    if expected != found:
        raise WorkbenchError(
            f"{path}: {found:,} bytes; its header promises shape {shape}, which takes {expected:,}",
            "copy or unpack the file again",
        )
    return np.memmap(path, dtype, "r", offset, shape)


def _header(path: Path) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    readers = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
    with open(path, "rb") as handle:
        try:
            version = npy_format.read_magic(handle)
            shape, fortran, dtype = readers[version](handle)
        except (ValueError, KeyError, TypeError, SyntaxError, RecursionError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise WorkbenchError(f"{path}: not a .npy file: {first}") from None
        return shape, fortran, dtype, handle.tell()
