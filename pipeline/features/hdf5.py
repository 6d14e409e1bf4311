"""Reading HDF5 as the workbench writes and trusts it: plain contiguous datasets, a digest for each.

`opened` opens a file, `read_attributes` and `read_layouts` take its header, `mapped` gives the
values of a dataset and `verify` compares them with their digest. A damaged header can claim any
size: each is compared with the file, and values are read straight from their place in it, without
filters, links or types that a hostile file could bring along. `pipeline.features.layout` is the
writing side.
"""

import errno
import hashlib
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pipeline.runtime.disk import to_workbench_error
from pipeline.runtime.errors import WorkbenchError, first_line
from pipeline.runtime.first_bytes import absent, explain, shown_path

MAX_ATTRIBUTE_BYTES = 1 << 20
MAX_VALUES = 1 << 48  # of a dataset; more is damage, and would overflow products of sizes
BLOCK_BYTES = 1 << 24  # read at a time for a digest
REMEDY = "if the workbench wrote it, delete it and write it again with: dvc repro"

# What h5py was seen to raise while it reads damaged metadata.
DAMAGE = (OSError, RuntimeError, LookupError, ValueError, TypeError, ArithmeticError, MemoryError)

# What the system refuses, whatever is in the file. HDF5 has numbers of other errors in its texts,
# too: EINVAL where damage leads it to a place that no file has.
REFUSALS = (
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.ESTALE,
    errno.EMFILE,
    errno.ENFILE,
    errno.ETIMEDOUT,
)
LOCKED = "unable to lock file"  # HDF5's words
MARKED = "already open for write"  # of the mark that a program sets in a file while it writes


@dataclass(frozen=True)
class Layout:
    """Where one dataset lies in its file."""

    name: str
    shape: tuple[int, ...]  # rows first
    dtype: np.dtype[Any]
    offset: int  # bytes from the start of the file
    sha256: str | None  # the recorded digest over the raw bytes

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in the file."""
        return math.prod(self.shape) * self.dtype.itemsize


@contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """An HDF5 file open for reading, for a `with` statement.

    Raises:
        WorkbenchError: for a file that is missing, of another kind or damaged, that another program
            has locked, or that the system refuses; also where HDF5 fails inside the statement.
    """
    if not path.is_file():
        raise WorkbenchError(f"{shown_path(path)}: {absent(path)}", "write it with: dvc repro")
    # what is empty, or zeros, may well be a file of ours that a full disk has left
    other = explain(path, expected=("hdf5", "empty", "zeros"))
    if other is not None:
        raise other
    try:
        if not h5py.is_hdf5(path):
            raise WorkbenchError(f"{path}: not an HDF5 file", REMEDY)
        with h5py.File(path, "r") as file:
            yield file
    except DAMAGE as error:
        raise _explained_failure(path, error) from None


def _explained_failure(path: Path, error: Exception) -> WorkbenchError:
    """What HDF5's failure says about a file, by its cause."""
    if LOCKED in str(error):
        if getattr(error, "errno", None) not in (errno.EAGAIN, errno.EACCES):
            return WorkbenchError(
                f"{path}: cannot be locked: {first_line(error)}",
                "if its file system has no locks, set the environment variable "
                "HDF5_USE_FILE_LOCKING=FALSE",
            )
        return WorkbenchError(
            f"{path}: another program has it open for writing",
            "close it there (in a notebook: file.close(), or restart the kernel), then run the "
            "command again",
        )
    if MARKED in str(error):
        return WorkbenchError(
            f"{path}: marked as open for writing: a program has it open, or has ended without "
            "closing it",
            "close it there; if that program has ended, write the file again",
        )
    if isinstance(error, OSError) and error.errno in REFUSALS:
        return to_workbench_error(error, path)
    return damaged(path, first_line(error))


def damaged(path: Path, what: str) -> WorkbenchError:
    """The error for a damaged file.

    Args:
        path: the file, with which the message begins.
        what: what is wrong with it, a clause without a full stop.

    Returns:
        The error, to be raised; its hint says how to write the file again.
    """
    return WorkbenchError(f"{path}: damaged: {what}", REMEDY)


def read_attributes(node: h5py.Group | h5py.Dataset) -> dict[str, str | int | float]:
    """Scalar text and numbers of a group or dataset, in name order; ValueError for others."""
    values: dict[str, str | int | float] = {}
    for name in text_names(node.attrs):
        kind = node.attrs.get_id(name)
        if kind.shape != () or kind.get_storage_size() > MAX_ATTRIBUTE_BYTES:
            raise ValueError(f"attribute {name!r} is not one short value")
        value = node.attrs[name]
        if isinstance(value, bytes):
            value = value.decode("utf-8")
        if isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, str | int | float):
            raise ValueError(f"attribute {name!r} is neither text nor a number")
        values[name] = value
    return values


def read_layouts(group: h5py.Group, path: Path) -> dict[str, Layout]:
    """Where the datasets lie that are directly in a group; groups inside it are passed over.

    Args:
        group: of a file that is open for reading, or the file itself.
        path: of the file, which messages begin with.

    Returns:
        Layouts by the names of their datasets.

    Raises:
        WorkbenchError: for what we never write: links, compressed or chunked datasets, types other
            than little-endian numbers and fixed-length bytes, and sizes that the file cannot have.
    """
    layouts = {}
    for name in text_names(group):
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise WorkbenchError(f"{path}: {name!r} is a link to elsewhere; not followed")
        node = group[name]
        if isinstance(node, h5py.Dataset):
            layouts[name] = _layout(name, node, path)
    return layouts


def text_names(names: Iterable[str | bytes]) -> list[str]:
    """Names of datasets or attributes; ValueError for those that are not UTF-8 text."""
    texts = list(names)
    if any(isinstance(name, bytes) for name in texts):  # h5py could not decode it
        raise ValueError("a name is not UTF-8 text")
    return [str(name) for name in texts]


def _layout(name: str, dataset: h5py.Dataset, path: Path) -> Layout:
    dtype = dataset.dtype
    if dataset.chunks is not None or dataset.is_virtual or dataset.external:
        raise WorkbenchError(
            f"{path}: dataset {name!r} is not stored contiguously",
            "copy its values into a file written with "
            "pipeline.features.feature_file.write_features",
        )
    if dtype.kind not in "fiuS" or dtype.byteorder == ">" or dtype.itemsize == 0:
        raise WorkbenchError(
            f"{path}: dataset {name!r} has type {dtype}; allowed are little-endian numbers "
            "and fixed-length bytes"
        )
    recorded = read_attributes(dataset).get("sha256")
    digest = None if recorded is None else str(recorded)
    offset = dataset.id.get_offset()
    layout = Layout(name, tuple(map(int, dataset.shape)), dtype, offset or 0, digest)
    if math.prod(max(size, 1) for size in layout.shape) > MAX_VALUES:  # one size may be zero
        raise damaged(path, f"dataset {name!r} of shape {layout.shape}")
    if layout.nbytes and (offset is None or offset + layout.nbytes > path.stat().st_size):
        raise damaged(path, f"dataset {name!r} of shape {layout.shape} does not fit into the file")
    return layout


def mapped(path: Path, layout: Layout) -> np.ndarray[Any, Any]:
    """A read-only view of a dataset in its file, paged in as it is touched.

    Args:
        path: the file.
        layout: where the dataset lies in it.

    Returns:
        An array of the dataset's shape and type, whose digest is not checked.

    Raises:
        WorkbenchError: where the file has become shorter than the dataset's end.
    """
    if layout.nbytes == 0:
        return np.empty(layout.shape, layout.dtype)
    if layout.offset + layout.nbytes > path.stat().st_size:
        raise damaged(path, f"dataset {layout.name!r} is cut off")
    return np.memmap(path, layout.dtype, "r", layout.offset, layout.shape)


def stored_digest(path: Path, layout: Layout) -> str:
    """The digest over the bytes that a dataset has in the file now.

    Args:
        path: the file.
        layout: where the dataset lies in it; its recorded digest is not looked at.

    Returns:
        SHA-256 as lower-case hex. Bytes are read and not mapped: a failing disk gives an error, and
        not the end of the process.

    Raises:
        WorkbenchError: where the file ends before the dataset does.
    """
    digest = hashlib.sha256()
    left = layout.nbytes
    with open(path, "rb") as handle:
        handle.seek(layout.offset)
        while left:
            block = handle.read(min(left, BLOCK_BYTES))
            if not block:
                raise damaged(path, f"dataset {layout.name!r} is cut off")
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


def verify(path: Path, layout: Layout) -> None:
    """Compare a dataset's bytes with the digest that was recorded when they were written.

    Args:
        path: the file.
        layout: where the dataset lies in it, with the recorded digest.

    Raises:
        WorkbenchError: where there is no digest or another, naming file and dataset.
    """
    if layout.sha256 is None:
        raise damaged(path, f"dataset {layout.name!r} has no sha256 to verify it by")
    if stored_digest(path, layout) != layout.sha256:
        raise damaged(path, f"the bytes of dataset {layout.name!r} do not match their sha256")
