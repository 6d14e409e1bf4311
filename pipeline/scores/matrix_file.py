"""Matrices of numbers that other programs wrote, scores or embeddings, and their ids.

A matrix is read once, some rows at a time, so that memory stays flat.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.embeddings.ids import BESIDE, array_ids, ids_beside, text_ids
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.matrix_formats import MAX_ID_BYTES, Blocks, open_format

VALUES = 1 << 20  # values of a block, 4 MB of float32
WITHOUT_PLACE = (".npy", ".safetensors")  # formats that have no place for ids


@dataclass(frozen=True, eq=False)
class MatrixFile:
    """A matrix in a file.

    Attributes:
        path: of the file.
        shape: rows and columns.
        ids: lists of ids by name, those that there are.
        read: the rows in order as they are stored, so many at a time.
    """

    path: Path
    shape: tuple[int, int]
    ids: Mapping[str, list[str]]
    read: Blocks

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Number of the first row, and (n, columns) float32, from the first row to the last.

        Raises WorkbenchError for values that are not finite, before or after their conversion to
        float32, and for a file that is damaged.
        """
        start = 0
        for block in self.read(max(1, VALUES // self.shape[1])):
            with np.errstate(over="ignore", invalid="ignore"):
                values = np.ascontiguousarray(block, np.float32)
            if not np.isfinite(values).all():
                row, column = (int(n[0]) for n in np.nonzero(~np.isfinite(values)))
                raise WorkbenchError(
                    f"{self.path}: {float(block[row, column])} in row {start + row}, column "
                    f"{column} (from 0); every value must be a finite number that float32 can hold"
                )
            yield start, values
            start += len(values)


def open_matrix(path: Path, names: Sequence[str]) -> MatrixFile:
    """Open the one matrix of a file, and its lists of ids.

    Ids are arrays of the given names in the file, or text files beside it with one id a line:
    `my.ids.txt` beside `my.npy` for the name `ids`, which may be what pipeline.embeddings reads.

    Args:
        path: of the file.
        names: of the lists of ids that may be there.

    Raises:
        WorkbenchError: another ending, no or several matrices, values that are no numbers, pickled
            objects, a damaged file, ids that are no texts or whole numbers or are there twice.
    """
    shape, read, inside = open_format(path, names)
    if len(shape) != 2 or min(shape) < 1:
        raise WorkbenchError(f"{path}: shape {shape}; expected are 2 dimensions, none of them 0")
    ids = {
        name: values if isinstance(values, list) else _texts(f"{path}, {name}", values)
        for name, values in inside.items()
    }
    for name, beside in beside_of(path, names).items():
        if name not in ids:
            ids[name] = ids_beside(path)[1] if name == "ids" else _lines(beside)
        elif path.suffix not in WITHOUT_PLACE:
            raise WorkbenchError(f"{path} has {name}, and so has {beside}", "delete one of them")
    return MatrixFile(path, (shape[0], shape[1]), ids, read)


def beside_of(path: Path, names: Sequence[str]) -> dict[str, Path]:
    """The files of ids that lie beside a matrix, by name."""
    endings = {name: BESIDE if name == "ids" else (f".{name}.txt",) for name in names}
    places = {
        name: [place for ending in some if (place := path.with_name(path.stem + ending)).is_file()]
        for name, some in endings.items()
    }
    return {name: there[0] for name, there in places.items() if there}


def _texts(place: str, values: np.ndarray) -> list[str]:
    if values.ndim != 1 or values.dtype.kind not in "iuUS":
        raise WorkbenchError(f"{place}: expected is a list of texts in UTF-8 or of whole numbers")
    return array_ids(iter((values,)), place)


def _lines(path: Path) -> list[str]:
    if path.stat().st_size > MAX_ID_BYTES:
        raise WorkbenchError(f"{path}: too large for a list of ids")
    return text_ids(path)
