"""A file of arrays, whatever its format: names, shapes and types at once, values block by block.

Each format's module makes an `ArrayFile`, which finds an `Array` by its name. An array gives its
rows in blocks; `damage_named` (runtime/errors.py) turns what a library raises meanwhile into one
plain error.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.runtime.errors import WorkbenchError, damage_named, listing

Block = npt.NDArray[Any]

BLOCK_BYTES = 1 << 23  # of values in memory
TEXTS = 1 << 14  # of any length, in memory


@dataclass(frozen=True)
class Array:
    """An array (N, ...) in a file, whose values are not read yet."""

    place: str  # file and name, which messages begin with
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # object where they are texts of any length
    read: Callable[[int], Iterator[Block]]  # gives the rows in order, about so many at a time

    def check_floats(self) -> None:
        """Raise WorkbenchError unless the values are float16, float32 or float64."""
        if self.dtype.kind != "f" or self.dtype.itemsize > 8:
            raise WorkbenchError(
                f"{self.place}: values of type {self.dtype}; allowed are float16, float32 and "
                "float64",
                "integers are not converted, since their scale is not in the file: save them as "
                "float32",
            )

    def blocks(self) -> Iterator[Block]:
        """All rows in order, (B, ...) at a time; WorkbenchError unless all are there."""
        row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        rows = TEXTS if self.dtype.hasobject else max(1, BLOCK_BYTES // max(1, row_bytes))
        count = 0
        with damage_named(self.place):
            for block in self.read(rows):
                count += len(block)
                yield block
        if count != self.shape[0]:
            raise WorkbenchError(f"{self.place}: {count:,} rows; it promises {self.shape[0]:,}")

    @property
    def nbytes(self) -> int:
        """Bytes of all values; of texts of any length, of their places in memory."""
        return math.prod(self.shape) * self.dtype.itemsize


def concatenated(place: str, arrays: Sequence[Array]) -> Array:
    """Arrays of equal width and type one after the other, as one.

    Args:
        place: of the whole, which messages begin with.
        arrays: at least one, of shape (N, ...) each.

    Returns:
        An array of (sum of N, ...).

    Raises:
        WorkbenchError: where one has another width or type than the first.
    """
    first = arrays[0]
    for array in arrays:
        if (array.shape[1:], array.dtype) != (first.shape[1:], first.dtype):
            raise WorkbenchError(
                f"{array.place}: rows {array.shape[1:]} of {array.dtype}; "
                f"{first.place} has {first.shape[1:]} of {first.dtype}"
            )

    def read(rows: int) -> Iterator[Block]:
        for array in arrays:
            with damage_named(array.place):
                yield from array.read(rows)

    count = sum(array.shape[0] for array in arrays)
    return Array(place, (count, *first.shape[1:]), first.dtype, read)


@dataclass(frozen=True)
class ArrayFile:
    """The arrays of a file, by name."""

    path: Path
    names: Sequence[str]  # an .npy has one, ""
    find: Callable[[str], Array | None]  # by name (HDF5: also `a/b`), None when there is none

    def array(self, name: str, hint: str = "") -> Array:
        """The array of a name.

        Args:
            name: of the array; an .npy has one alone, whatever it is asked for.
            hint: what to do where there is none, for the error.

        Returns:
            The array, whose values are not read.

        Raises:
            WorkbenchError: where there is none, and for one that is damaged or is not read.
        """
        array = self.get("" if list(self.names) == [""] else name)
        if array is None:
            raise WorkbenchError(
                f"{self.path}: no array {name!r}; it has "
                f"{listing(self.names) or 'none outside of groups'}",
                hint,
            )
        return array

    def get(self, name: str) -> Array | None:
        """The array of a name, None when there is none; WorkbenchError for one that is damaged or
        is not read."""
        with damage_named(str(self.path)):
            return self.find(name)
