"""HDF5 files: datasets, contiguous or in compressed chunks."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import h5py
import numpy as np

from pipeline.arrays.file import Array, ArrayFile, Block
from pipeline.runtime.errors import WorkbenchError
from pipeline.storage.hdf5 import opened, text_names

MAX_CHUNK = 1 << 28  # bytes that one stored chunk may unfold to
TEXTS = 256  # read at once: each of variable length may be as long as the file


def read_hdf5(path: Path) -> ArrayFile:
    """The datasets of an HDF5 file; those in groups are found as `group/name`."""
    with opened(path) as file:
        kinds = {name: file.get(name, getclass=True) for name in text_names(file)
                 if isinstance(file.get(name, getlink=True), h5py.HardLink)}  # fmt: skip
    names = [name for name, kind in kinds.items() if kind is h5py.Dataset]
    return ArrayFile(path, names, partial(_find, path))


def _find(path: Path, name: str) -> Array | None:
    with opened(path) as file:
        parts = name.split("/")
        for depth in range(1, len(parts) + 1):  # no part of the way leaves the file
            link = file.get("/".join(parts[:depth]), getlink=True)
            if link is None:
                return None
            if not isinstance(link, h5py.HardLink):
                raise WorkbenchError(f"{path}: {name!r} is a link to elsewhere; not followed")
        data = file[name]
        if not isinstance(data, h5py.Dataset) or data.is_virtual or data.external:
            raise WorkbenchError(f"{path}: {name!r} is no dataset with its values in this file")
        if data.dtype.hasobject and h5py.check_string_dtype(data.dtype) is None:
            raise WorkbenchError(f"{path}: {name!r} holds neither numbers nor texts")
        _check_size(path, name, data)
        return Array(f"{path}, array {name}", data.shape, data.dtype, partial(_rows, path, name))


def _check_size(path: Path, name: str, data: h5py.Dataset) -> None:
    if not data.size or not data.id.get_storage_size():
        raise WorkbenchError(f"{path}: array {name!r} is empty")
    chunk = int(np.prod(data.chunks or (1,), dtype=np.float64)) * data.dtype.itemsize
    if chunk > MAX_CHUNK or (not data.chunks and data.nbytes > path.stat().st_size):
        raise WorkbenchError(f"{path}: {name} of shape {data.shape} cannot be in this file")


def _rows(path: Path, name: str, rows: int) -> Iterator[Block]:
    with opened(path) as file:
        dataset = file[name]
        if dataset.dtype.kind == "O":
            rows = min(rows, TEXTS)
        elif dataset.chunks:  # whole chunks, so that none is unpacked twice
            rows = max(rows // dataset.chunks[0], 1) * dataset.chunks[0]
        for start in range(0, len(dataset), rows):
            yield dataset[start : start + rows]
