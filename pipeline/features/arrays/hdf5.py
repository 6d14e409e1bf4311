"""HDF5 files: datasets, contiguous or in compressed chunks."""

import math
import mmap
import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import h5py
import numpy as np

from pipeline.features.arrays.file import Array, ArrayFile, Block
from pipeline.features.hdf5 import opened, text_names
from pipeline.runtime.errors import WorkbenchError

MAX_CHUNK = 1 << 28  # bytes that one stored chunk may unfold to
TEXTS = 256  # read at once: each of variable length may be as long as the file
HEAP = b"GCOL\x01\0\0\0"  # where a heap of texts of variable length begins, then its size


def read_hdf5(path: Path) -> ArrayFile:
    """The datasets of an HDF5 file; those in groups are found as `group/name`."""
    with opened(path) as file:
        names = [
            name
            for name in text_names(file)
            if isinstance(file.get(name, getlink=True), h5py.HardLink)
            and file.get(name, getclass=True) is h5py.Dataset
        ]
    return ArrayFile(path, names, partial(_find, path))


def _find(path: Path, name: str) -> Array | None:
    with opened(path) as file:
        data = checked_dataset(file, path, name)
        if data is None:
            return None
        return Array(
            f"{path}, array {name}", data.shape, data.dtype, partial(read_rows, path, name)
        )


def checked_dataset(file: h5py.File, path: Path, name: str) -> h5py.Dataset | None:
    """A dataset of an open file that may be read.

    Args:
        file: opened for reading.
        path: of the file, which messages begin with.
        name: of the dataset, with the groups around it.

    Returns:
        The dataset, None where there is none.

    Raises:
        WorkbenchError: for links and values outside the file, for objects, and for sizes that the
            file cannot have.
    """
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
    return data


def _check_size(path: Path, name: str, data: h5py.Dataset) -> None:
    if not data.size or not data.id.get_storage_size():
        raise WorkbenchError(f"{path}: array {name!r} is empty")
    chunk = math.prod(data.chunks or (1,)) * data.dtype.itemsize
    if chunk > MAX_CHUNK or (not data.chunks and data.nbytes > path.stat().st_size):
        raise WorkbenchError(f"{path}: {name} of shape {data.shape} cannot be in this file")


def read_rows(path: Path, name: str, rows: int) -> Iterator[Block]:
    """The rows of a checked dataset, some at a time.

    Args:
        path: of the file.
        name: of the dataset.
        rows: about how many at a time.

    Returns:
        Blocks (B, ...).
    """
    with opened(path) as file:
        dataset = file[name]
        if dataset.dtype.kind == "O":
            rows = min(rows, TEXTS)
            _check_heaps(path)
            _check_lengths(path, dataset)
        elif dataset.chunks:  # whole chunks, so that none is unpacked twice
            rows = max(rows // dataset.chunks[0], 1) * dataset.chunks[0]
        for start in range(0, len(dataset), rows):
            yield dataset[start : start + rows]


def _check_lengths(path: Path, dataset: h5py.Dataset) -> None:
    """Refuse texts that say they are longer than the file: libhdf5 would ask for as much memory. In
    chunks that are compressed, a checksum finds damage first; behind a user block, places are told
    otherwise by each version of libhdf5."""
    if dataset.id.get_create_plist().get_nfilters() or dataset.file.userblock_size:
        return
    if dataset.chunks:
        infos = map(dataset.id.get_chunk_info, range(dataset.id.get_num_chunks()))
        places = [(info.byte_offset, info.size) for info in infos]
    else:
        places = [(dataset.id.get_offset(), dataset.id.get_storage_size())]
    # each text is its length, then where it is
    reference = np.dtype(
        {"names": ["length"], "formats": ["<u4"], "itemsize": dataset.id.get_type().get_size()}
    )
    with open(path, "rb") as file:
        for offset, size in places:
            # within the description of the dataset, or where libhdf5 refuses it
            if offset is None or offset >= path.stat().st_size:
                continue
            file.seek(offset)
            lengths = np.fromfile(file, reference, size // reference.itemsize)["length"]
            longest = int(lengths.max(initial=0))
            if longest > path.stat().st_size:
                text = f"a text of {longest:,} bytes, more than the file"
                place = f"{path}: damaged: {dataset.name[1:]}"
                raise WorkbenchError(f"{place} has {text}", "fetch or write it again")


def _check_heaps(path: Path) -> None:
    """Refuse a file with a damaged heap, such as a block of zeros: libhdf5 would read it for ever.
    A heap is a chain of objects, the last of which, number 0, is what is free."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data.find(HEAP)
        while start >= 0:
            at = start + 16
            end = start + int.from_bytes(data[start + 8 : start + 16], "little")
            length = 0
            while at + 16 <= end <= len(data):
                number, length = struct.unpack_from("<H6xQ", data, at)
                if number == 0:
                    break
                at += 16 + -(-length // 8) * 8
            if end > len(data) or at > end or (at + 16 <= end and at + length != end):
                text = f"{path}: damaged: a heap of texts at byte {start:,}"
                raise WorkbenchError(text, "if h5repack can copy it, take the copy")
            start = data.find(HEAP, start + 1)
