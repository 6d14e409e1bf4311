"""Matrices that only go with others: boxes, sizes and masks beside the vectors of regions or words.

Where nobody has named an array, the only matrix of a file is taken. It may be such a helper, and
what is wanted may have three axes.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path

from pipeline.features.arrays.file import Array
from pipeline.runtime.errors import WorkbenchError, listing

_CALLED = re.compile(
    r"(?:^|[_ .-])(?:b?box(?:es)?|sizes?|shapes?|masks?|spatials?|lengths?|counts?|coords?|"
    r"whs?|hws?|scales?|bias(?:es)?)(?:$|[_ .-])",
    re.IGNORECASE,
)


def check_only_matrix(path: Path, name: str, arrays: Mapping[str, Array], way_out: str) -> None:
    """Refuse the only matrix of a file where it may only go with another array.

    Args:
        path: of the file.
        name: of the matrix.
        arrays: all arrays of the file, by name.
        way_out: what to do, for the message.

    Raises:
        WorkbenchError: for a matrix that is called as helpers are, or that has a larger array of
            three axes beside it, whose last is not as wide: its mean would be.
    """
    matrix = arrays[name]
    larger = [
        f"{other} {array.shape}"
        for other, array in arrays.items()
        if _CALLED.search(other) is None and _is_meant(array, matrix)
    ]
    if not larger and _CALLED.search(name) is None:
        return
    beside = f", beside {listing(larger)}" if larger else ", and is called as what goes with others"
    raise WorkbenchError(
        f"{path}: {name} {matrix.shape} is its only matrix{beside}; is it what is meant?", way_out
    )


def _is_meant(array: Array, matrix: Array) -> bool:
    """Whether an array is larger than the matrix, of as many rows, and not the parts of which the
    matrix has the means."""
    shape = array.shape
    return (
        len(shape) > 2
        and array.dtype.kind == "f"
        and shape[0] in matrix.shape
        and shape[-1] != matrix.shape[1]
        and math.prod(shape) >= math.prod(matrix.shape)
    )
