"""HDF5 files: two datasets, as in the workbench's own files or under other names."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import h5py
import numpy as np

from pipeline.embeddings.ids import ROWS, array_ids
from pipeline.embeddings.source import (
    MAX_ID,
    Block,
    Embeddings,
    check_shape,
    other_type,
    rows_at_once,
    stored_as,
)
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.storage.hdf5 import opened, text_names

MAX_CHUNK = 1 << 28  # bytes that one stored block may unfold to
TEXTS = 256  # ids read at once: each of variable length may be as long as the file


def read_hdf5(path: Path, ids: str, features: str) -> Embeddings:
    """Vectors and ids in an HDF5 file, contiguous or in compressed chunks.

    Args:
        path: of the file.
        ids: name of the dataset of ids, texts or whole numbers; folders are separated by /.
        features: name of the dataset of vectors.

    Raises:
        WorkbenchError: a damaged file, or one without such datasets.
    """
    with opened(path) as file:
        vectors = _dataset(path, file, features)
        place = f"{path}, dataset {features}"
        shape = check_shape(place, vectors.shape)
        if vectors.dtype.kind != "f" or vectors.dtype.itemsize > 8:
            raise other_type(place, vectors.dtype)
        found = _ids(path, file, ids)
        dtype = stored_as(vectors.dtype)
    return Embeddings(path, found, shape, dtype, partial(_blocks, path, features))


def _blocks(path: Path, name: str) -> Iterator[Block]:
    with opened(path) as file:
        dataset = file[name]
        rows = rows_at_once(dataset.shape[1])
        if dataset.chunks:  # whole chunks, so that none is unpacked twice
            rows = max(rows // dataset.chunks[0], 1) * dataset.chunks[0]
        for start in range(0, len(dataset), rows):
            yield dataset[start : start + rows]


def _ids(path: Path, file: h5py.File, name: str) -> list[str]:
    dataset, place = _dataset(path, file, name), f"{path}, dataset {name}"
    text = h5py.check_string_dtype(dataset.dtype) is not None
    if dataset.ndim != 1 or not (text or dataset.dtype.kind in "iuS"):
        raise WorkbenchError(
            f"{place}: type {dataset.dtype} of shape {dataset.shape}; expected are ids (N,), texts "
            "or whole numbers"
        )
    if dataset.dtype.itemsize > MAX_ID:
        raise WorkbenchError(f"{place}: ids of {dataset.dtype.itemsize:,} bytes")
    rows = TEXTS if dataset.dtype.kind == "O" else ROWS
    parts = (dataset[start : start + rows] for start in range(0, len(dataset), rows))
    return array_ids(parts, place)


def _dataset(path: Path, file: h5py.File, name: str) -> h5py.Dataset:
    """A dataset in the file itself, none of whose blocks unfolds to too much."""
    parts = name.split("/")
    for depth in range(1, len(parts)):  # no part of the way leaves the file
        _own(path, file, "/".join(parts[:depth]))
    found = _own(path, file, name)
    if not isinstance(found, h5py.Dataset) or found.is_virtual or found.external:
        raise WorkbenchError(f"{path}: {name!r} is no dataset with its values in this file")
    if not found.size or not found.id.get_storage_size():
        raise WorkbenchError(f"{path}: dataset {name!r} is empty")
    block = int(np.prod(found.chunks or (1,), dtype=np.float64)) * found.dtype.itemsize
    if block > MAX_CHUNK or (not found.chunks and found.nbytes > path.stat().st_size):
        raise WorkbenchError(f"{path}: {name} of shape {found.shape} cannot be in this file")
    return found


def _own(path: Path, file: h5py.File, name: str) -> object:
    if name not in file:
        raise WorkbenchError(
            f"{path}: no dataset {name!r}; it has {listing(text_names(file))}",
            "name the datasets of ids and vectors under `file` in params.yaml",
        )
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        raise WorkbenchError(f"{path}: {name!r} is a link to elsewhere; not followed")
    return file[name]
