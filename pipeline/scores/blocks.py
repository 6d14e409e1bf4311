"""Arrays of scores and embeddings block by block, without torch."""

import mmap

import numpy as np

from pipeline.runtime.errors import WorkbenchError


def cuts(size: int, step: int) -> list[slice]:
    """0 to `size` in runs of `step`, the last one shorter."""
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def check_numbers(scores: np.ndarray, top: int, left: int) -> None:
    """Refuse scores (n, m) that are NaN or infinite, naming the first. top, left: numbers of the
    first image and the first caption."""
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
    """Hand back the memory of an array that is mapped from a file, of any shape. The system
    keeps it in its cache and may drop it: a process need not have room for embeddings that it
    goes through a window at a time."""
    if isinstance(array.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        array.base.madvise(mmap.MADV_DONTNEED)
