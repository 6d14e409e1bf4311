"""Matrices that are made before they are written: on disk, so that memory stays flat."""

import os
import tempfile
from pathlib import Path

import numpy as np

from pipeline.runtime.files import make_folder


def temporary_matrix(folder: Path, shape: tuple[int, ...]) -> np.ndarray:
    """A float32 matrix in a file without a name, which is gone with it."""
    make_folder(folder)
    with tempfile.TemporaryFile(dir=folder) as file:
        # a disk that is full while pages are written would end the process without a word
        os.posix_fallocate(file.fileno(), 0, 4 * shape[0] * shape[1])
        return np.memmap(file, np.float32, "r+", shape=shape)
