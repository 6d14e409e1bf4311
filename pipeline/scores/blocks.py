"""Arrays of scores and embeddings block by block, without torch."""

import mmap
import os
import tempfile
from pathlib import Path

import numpy as np

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import make_folder


def cuts(size: int, step: int) -> list[slice]:
    """0 to `size` in runs of `step`, the last one shorter."""
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def check_numbers(scores: np.ndarray, top: int, left: int) -> None:
    """Refuse NaN or infinity in scores (n, m), of images from `top` and captions from `left` on."""
    finite = np.isfinite(scores)
    if finite.all():
        return
    row, column = (int(part[0]) for part in np.nonzero(~finite))
    raise WorkbenchError(
        f"score {float(scores[row, column])} of image {top + row} and caption {left + column}: "
        "every score must be a finite number",
        "the model or its features are broken; ranks of such scores would mean nothing",
    )


def release(array: np.ndarray) -> None:
    """Hand back the memory of an array of any shape that is mapped from a file."""
    if isinstance(array.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        array.base.madvise(mmap.MADV_DONTNEED)


def temporary_matrix(folder: Path, shape: tuple[int, ...]) -> np.ndarray:
    """A float32 matrix in a file without a name, which is gone with it: memory stays flat."""
    make_folder(folder)
    with tempfile.TemporaryFile(dir=folder) as file:
        # a disk that is full while pages are written would end the process without a word
        os.posix_fallocate(file.fileno(), 0, 4 * shape[0] * shape[1])
        return np.memmap(file, np.float32, "r+", shape=shape)
