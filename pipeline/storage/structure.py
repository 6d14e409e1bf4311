"""The structure of an HDF5 file, made in memory and written by ordinary writes.

On a full disk HDF5 left damaged files behind, said nothing, or ended the process. So it lays the
file out in memory, where a large dataset is a hole; whoever has values writes them to their places.
"""

import errno
import os
import resource
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt

from pipeline.runtime.disk import require_room
from pipeline.storage.hdf5 import Layout, read_layouts

MEMORY = Path("/dev/shm")
SCRATCH = MEMORY if os.access(MEMORY, os.W_OK) else Path(tempfile.gettempdir())
OPEN = Path("/dev/fd")  # files of this process by their numbers
ROOM = 1 << 18  # a structure without its values has some kilobytes


@dataclass(frozen=True)
class Structure:
    """All of a file but the values of its datasets."""

    size: int
    layouts: dict[str, Layout]  # by name, "group/name" in groups
    parts: list[tuple[int, bytes]]  # offset and bytes of all that lies outside the datasets

    def begin(self, path: Path) -> None:
        """Create the file with zeros for values, and take all of its room; OSError if it cannot."""
        with open(path, "wb", buffering=0) as handle:
            # a hole that a memory map touches on a full disk ends the process with SIGBUS
            if self.size and hasattr(os, "posix_fallocate"):  # not on macOS
                os.posix_fallocate(handle.fileno(), 0, self.size)
            os.ftruncate(handle.fileno(), self.size)
        self.renew(path)

    def renew(self, path: Path) -> None:
        """Write everything but values into a file that has this structure already."""
        with open(path, "rb+", buffering=0) as handle:
            for offset, part in self.parts:
                write_at(handle.fileno(), part, offset)

    def put(self, path: Path, values: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Write whole datasets: name -> contiguous array of its shape and type."""
        with open(path, "rb+", buffering=0) as handle:
            for name, array in values.items():
                write_at(handle.fileno(), raw(array), self.layouts[name].offset)


def structured(build: Callable[[h5py.File], None], values: int, **options: int) -> Structure:
    """The structure that `build` gives an empty file. values: bytes of all values, which need not
    be written; OSError where a limit on the size of files may be exceeded."""
    if 0 <= resource.getrlimit(resource.RLIMIT_FSIZE)[0] < values + ROOM:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))  # HDF5 may not survive it
    require_room(SCRATCH, ROOM)
    with tempfile.NamedTemporaryFile(dir=SCRATCH, delete=False) as scratch:
        name, path = Path(scratch.name), OPEN / str(scratch.fileno())
        try:
            begun = h5py.File(name, "w", **options)
        finally:
            name.unlink()  # a process that is killed leaves nothing in memory
        with begun as file:
            build(file)
            file.flush()
            layouts = dict(_layouts(file, path))
            size = file.id.get_filesize()
        extents = sorted((x.offset, x.offset + x.nbytes) for x in layouts.values() if x.nbytes)
        starts = [0, *(stop for _, stop in extents)]
        stops = [*(start for start, _ in extents), size]
        parts = [
            (start, os.pread(scratch.fileno(), stop - start, start))
            for start, stop in zip(starts, stops, strict=True)
            if stop > start
        ]
    return Structure(size, layouts, parts)


def raw(values: npt.NDArray[np.generic]) -> memoryview:
    return values.reshape(-1).view(np.uint8).data if values.size else memoryview(b"")


def write_at(file: int, values: bytes | memoryview, offset: int) -> None:
    """Write bytes to a place in an open file, all of them or OSError."""
    left = memoryview(values)
    while left:
        count = os.pwrite(file, left, offset)
        left, offset = left[count:], offset + count


def _layouts(file: h5py.File, path: Path) -> Iterator[tuple[str, Layout]]:
    yield from read_layouts(file, path).items()
    for group in (name for name in file if isinstance(file[name], h5py.Group)):
        for name, layout in read_layouts(file[group], path).items():
            yield f"{group}/{name}", layout
