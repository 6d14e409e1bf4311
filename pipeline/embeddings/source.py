"""What every reader of a file of vectors offers, and the checks that all of them make."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.runtime.errors import WorkbenchError

Block = npt.NDArray[Any]

IMPORTED = "imported from "  # begins the attribute `model` of what was imported
MAX_DIM = 1 << 16  # width of a vector
MAX_ROWS = 1 << 25  # of a file; more is taken for damage
MAX_ID = 1 << 12  # bytes of an id
BLOCK_BYTES = 1 << 23  # of vectors in memory


@dataclass(frozen=True)
class Embeddings:
    """A file of vectors whose ids have been read; values are read block by block.

    Raises WorkbenchError when there are not as many ids as vectors.

    Attributes:
        path: of the file.
        ids: in the order of the rows.
        shape: N, D of the vectors.
        dtype: what the values are stored as, float16 or float32.
        blocks: gives all rows in order, blocks (B, D) of floats at a time.
        ids_path: the file of the ids, None where they are in the same file.
    """

    path: Path
    ids: list[str]
    shape: tuple[int, int]
    dtype: str
    blocks: Callable[[], Iterator[Block]]
    ids_path: Path | None = None

    def __post_init__(self) -> None:
        if len(self.ids) != self.shape[0]:
            raise WorkbenchError(
                f"{self.ids_path or self.path}: {len(self.ids):,} ids for {self.shape[0]:,} vectors"
            )


def stored_as(dtype: npt.DTypeLike) -> str:
    """What values of a floating type are stored as: float64 keeps what float32 can hold."""
    return "float16" if np.dtype(dtype).itemsize == 2 else "float32"


def rows_at_once(width: int) -> int:
    """How many rows of D values make a block."""
    return max(1, BLOCK_BYTES // (8 * width))


def check_shape(place: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Refuse what is not one vector per row, or too large to be meant.

    Args:
        place: what the message begins with.
        shape: of the vectors.

    Returns:
        N, D.

    Raises:
        WorkbenchError: not (N, D), no rows, more than MAX_ROWS, or D not within 1 to MAX_DIM.
    """
    if len(shape) != 2 or not shape[0]:
        raise WorkbenchError(f"{place}: shape {shape}; expected are vectors (N, D)")
    if shape[0] > MAX_ROWS:
        raise WorkbenchError(f"{place}: {shape[0]:,} rows; allowed are at most {MAX_ROWS:,}")
    if not 1 <= shape[1] <= MAX_DIM:
        raise WorkbenchError(
            f"{place}: vectors of width {shape[1]:,}; allowed are 1 to {MAX_DIM:,}"
        )
    return shape[0], shape[1]


def other_type(place: str, dtype: object) -> WorkbenchError:
    """The error for values that are no floats.

    Args:
        place: what the message begins with.
        dtype: of the values.
    """
    return WorkbenchError(
        f"{place}: values of type {dtype}; allowed are float16, float32 and float64",
        "integers are not converted, since their scale is not in the file: save them as float32",
    )
