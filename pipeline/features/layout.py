"""Writing HDF5 so that equal content gives equal bytes, and a full disk or a kill breaks nothing.

On a full disk HDF5 left damaged files behind, said nothing, or ended the process. So HDF5 lays a
file out in memory, where a large dataset is a hole (`build_structure`); the result, a `Structure`,
is written by ordinary writes, and whoever has values writes them to their places.

A feature file (`feature_structure`) has `ids` first, then its datasets in the order given.
Attributes stand in the order of their names. Every dataset has a digest, and one more covers the
header: the attributes, and the names, types, shapes and digests of the datasets.
"""

import errno
import hashlib
import json
import os
import re
import resource
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from pipeline.features.hdf5 import Layout, damaged, read_layouts
from pipeline.runtime.disk import require_room
from pipeline.runtime.errors import WorkbenchError, listing, other_version

SCHEMA_VERSION = 1
NO_DIGEST = "0" * 64  # of a file in the making
ALIGNMENT = 64  # bytes, so that a memory map of a dataset is an ordinary array to numpy
MAX_TEXT_BYTES = 60_000  # an HDF5 object header holds 64 KiB
UNFIT = re.compile("[\0\ud800-\udfff]")  # NUL, and surrogates, which are not text

MEMORY = Path("/dev/shm")
SCRATCH = MEMORY if os.access(MEMORY, os.W_OK) else Path(tempfile.gettempdir())
OPEN_FILES = Path("/dev/fd")  # files of this process by their numbers
STRUCTURE_BYTES = 1 << 18  # more than a structure without its values has

Attributes = Mapping[str, str | int | float]
Array = np.ndarray[Any, np.dtype[Any]]
Datasets = Mapping[str, tuple[tuple[int, ...], npt.DTypeLike]]  # name -> (shape of a row, dtype)


# What may be stored


def encode_ids(ids: Sequence[str]) -> Array:
    """(N,) fixed-length UTF-8 bytes of N ids. Raises WorkbenchError when there are none, or when
    some are empty, repeated, not encodable or hold a NUL character."""
    if len(ids) == 0:
        raise WorkbenchError("no ids: a feature file needs at least one row")
    bad = [name for name in ids if not name or UNFIT.search(name)]
    if bad:
        names = listing([repr(name) for name in bad], 5)
        raise WorkbenchError(f"ids that are empty, hold NUL or are not Unicode text: {names}")
    if len(set(ids)) < len(ids):
        twice = [name for name, count in Counter(ids).items() if count > 1]
        raise WorkbenchError(f"ids given more than once: {listing(twice, 5)}")
    return np.array([name.encode() for name in ids], dtype=np.bytes_)


def cast_finite(name: str, values: Array, dtype: npt.DTypeLike, ids: Sequence[str]) -> Array:
    """Values in the form in which they are stored.

    Args:
        name: of the dataset, which messages begin with.
        values: (n, ...) numbers.
        dtype: type in which they are stored.
        ids: n names of the rows, of which messages list the first that are wrong.

    Returns:
        (n, ...) contiguous, little-endian, of the type `dtype`.

    Raises:
        WorkbenchError: for values that are not finite, and for values that `dtype` cannot hold.
    """
    target = np.dtype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        stored = np.ascontiguousarray(values, dtype=target.newbyteorder("<"))
    if target.kind in "iu" and not np.array_equal(stored, values):
        raise WorkbenchError(f"{name}: values that {target} cannot hold")
    if target.kind == "f" and not np.isfinite(stored).all():
        rows = ~np.isfinite(stored.reshape(len(stored), -1)).all(axis=1)
        names = listing(np.asarray(ids, dtype=object)[rows], 5)
        if np.isfinite(values).all():
            raise WorkbenchError(
                f"{name}: values beyond {np.finfo(target).max:,.0f}, the largest {target}, "
                f"for {names}",
                "use weights or layers with smaller outputs, or normalise before storing",
            )
        raise WorkbenchError(f"{name}: NaN or infinite values for {names}")
    return stored


# Attributes and digests


def stored_attributes(attributes: Attributes) -> dict[str, str | int | float]:
    """The caller's attributes with the version of this layout, as they are written."""
    return {**attributes, "schema_version": SCHEMA_VERSION}


def check_version(path: Path, attributes: Attributes) -> None:
    """Refuse a file of another version of this layout.

    Args:
        path: the file, which the message begins with.
        attributes: its attributes.

    Raises:
        WorkbenchError: where `schema_version` is missing or another.
    """
    version = attributes.get("schema_version")
    if version != SCHEMA_VERSION:
        hint = "write the file again with: dvc repro"
        raise other_version(path, version, SCHEMA_VERSION, hint)


def array_digest(values: Array) -> str:
    """SHA-256 hex over the bytes of a contiguous array of any shape."""
    return hashlib.sha256(bytes_of(values)).hexdigest()


def content_digest(attributes: Attributes, layouts: Mapping[str, Layout]) -> str:
    """The digest over a header, and by the datasets' digests over the whole content.

    Args:
        attributes: as stored, without the digest itself.
        layouts: of the datasets, by name; their offsets do not count.

    Returns:
        SHA-256 as lower-case hex.
    """
    described = {
        name: [layout.dtype.str, layout.shape, layout.sha256] for name, layout in layouts.items()
    }
    text = json.dumps([attributes, described], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def take_digest(
    path: Path, attributes: dict[str, str | int | float], layouts: Mapping[str, Layout]
) -> str:
    """Take the digest over a file's content out of its attributes, and check the header by it.

    Args:
        path: the file, which the message begins with.
        attributes: as read; the digest is removed from them.
        layouts: of all its datasets, by name.

    Returns:
        The digest, SHA-256 as lower-case hex.

    Raises:
        WorkbenchError: where the header has another digest.
    """
    digest = str(attributes.pop("sha256", ""))
    if digest != content_digest(attributes, layouts):
        raise damaged(path, "the header does not match its sha256")
    return digest


def write_attributes(node: h5py.Group | h5py.Dataset, values: Attributes) -> None:
    """Attach texts and numbers to a file or a dataset.

    Args:
        node: open for writing.
        values: by name; written in the order of the names, the digest last.

    Raises:
        WorkbenchError: for a text that is empty, holds NUL or is longer than MAX_TEXT_BYTES.
    """
    for name, value in sorted(values.items(), key=lambda item: (item[0] == "sha256", item[0])):
        if not isinstance(value, str):
            node.attrs.create(name, value, dtype=np.int64 if isinstance(value, int) else np.float64)
            continue
        text = value.encode()
        if not text or b"\0" in text or len(text) > MAX_TEXT_BYTES:
            raise WorkbenchError(
                f"attribute {name!r}: empty, holds NUL or exceeds {MAX_TEXT_BYTES} bytes"
            )
        node.attrs.create(name, np.bytes_(text), dtype=h5py.string_dtype("utf-8", len(text)))


# The structure of a file


@dataclass(frozen=True)
class Structure:
    """All of a file but the values of its datasets."""

    size: int  # bytes of the whole file
    layouts: dict[str, Layout]  # by name, "group/name" in groups
    parts: list[tuple[int, bytes]]  # offset and bytes of all that lies outside the datasets

    def create(self, path: Path) -> None:
        """Create the file, all zeros, and take all of its room; OSError if it cannot."""
        with open(path, "wb", buffering=0) as handle:
            # a hole that a memory map touches on a full disk ends the process with SIGBUS
            if self.size and hasattr(os, "posix_fallocate"):  # not on macOS
                os.posix_fallocate(handle.fileno(), 0, self.size)
            os.ftruncate(handle.fileno(), self.size)

    def write(self, path: Path, values: Mapping[str, Array]) -> None:
        """Write all that lies outside the datasets, and some datasets whole.

        Args:
            path: a file that `create` made, or one that has this structure already.
            values: contiguous arrays of the datasets' shapes and types, by name.

        Raises:
            OSError: where the system refuses a write.
        """
        with open(path, "rb+", buffering=0) as handle:
            for offset, part in self.parts:
                write_at(handle.fileno(), part, offset)
            for name, array in values.items():
                write_at(handle.fileno(), bytes_of(array), self.layouts[name].offset)


def feature_structure(
    ids: Array,
    datasets: Datasets,
    attributes: Attributes,
    digests: Mapping[str, str] | None = None,
) -> Structure:
    """The structure of a feature file.

    Args:
        ids: (N,) fixed-length UTF-8 bytes, from `encode_ids`.
        datasets: shape of a row and type of each, created in this order.
        attributes: what the file says of its content.
        digests: of `ids` and every dataset, by name; None while the file is in the making: zeros
            stand in their place, and no reader takes the file.

    Returns:
        The structure, the datasets little-endian and aligned to ALIGNMENT bytes.

    Raises:
        WorkbenchError: for datasets that hold no numbers, and for attributes that HDF5 cannot hold.
        OSError: where the file would be larger than the process may write.
    """
    named = stored_attributes(attributes)
    layouts = {"ids": _empty_layout("ids", ids.shape, ids.dtype, digests)}
    for name, (row, dtype) in datasets.items():
        stored = np.dtype(dtype).newbyteorder("<")
        if stored.kind not in "fiu":
            raise WorkbenchError(f"{name}: values of type {stored}; allowed are numbers")
        layouts[name] = _empty_layout(name, (len(ids), *row), stored, digests)
    sealed = NO_DIGEST if digests is None else content_digest(named, layouts)

    def build(file: h5py.File) -> None:
        write_attributes(file, named | {"sha256": sealed})
        for layout in layouts.values():
            create_dataset(file, layout, is_aligned=True)

    size = sum(layout.nbytes for layout in layouts.values())
    return build_structure(build, size, alignment_threshold=1, alignment_interval=ALIGNMENT)


def _empty_layout(
    name: str, shape: tuple[int, ...], dtype: np.dtype[Any], digests: Mapping[str, str] | None
) -> Layout:
    return Layout(name, shape, dtype, 0, digests[name] if digests else NO_DIGEST)


def create_dataset(file: h5py.File, layout: Layout, is_aligned: bool = False) -> None:
    """Create a dataset, with its place in the file but without values, that bears its digest.

    Args:
        file: open for writing.
        layout: its name ("group/name" in a group), shape, type and digest.
        is_aligned: take the place when the dataset is created, as in feature files; in files of
            groups the first value written takes it. Files of both kinds keep the bytes they have.
    """
    is_text = layout.dtype.kind == "S"
    kind = h5py.string_dtype("utf-8", layout.dtype.itemsize) if is_text else layout.dtype
    options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if is_aligned:
        options.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    dataset = file.create_dataset(layout.name, layout.shape, kind, track_times=False, dcpl=options)
    if layout.nbytes and not is_aligned:
        dataset[(0,) * len(layout.shape)] = np.zeros((), layout.dtype)[()]
    write_attributes(dataset, {"sha256": str(layout.sha256)})


def build_structure(build: Callable[[h5py.File], None], values: int, **options: int) -> Structure:
    """The structure that HDF5 gives a file.

    Args:
        build: creates groups, datasets and attributes in an empty file, and may leave values out.
        values: bytes of all values.
        options: of h5py.File, such as an alignment.

    Returns:
        The structure; nothing of it is on a disk.

    Raises:
        OSError: where a limit on the size of files may be exceeded, which HDF5 may not survive.
        WorkbenchError: where SCRATCH has no room for a structure.
    """
    if 0 <= resource.getrlimit(resource.RLIMIT_FSIZE)[0] < values + STRUCTURE_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    require_room(SCRATCH, STRUCTURE_BYTES)
    with tempfile.NamedTemporaryFile(dir=SCRATCH, delete=False) as scratch:
        name = Path(scratch.name)
        try:
            begun = h5py.File(name, "w", **options)
        finally:
            name.unlink()  # a process that is killed leaves nothing in memory
        with begun as file:
            build(file)
            file.flush()
            path = OPEN_FILES / str(scratch.fileno())
            layouts = read_layouts(file, path)
            for group in (node for node in file.values() if isinstance(node, h5py.Group)):
                inside = read_layouts(group, path)
                layouts |= {f"{group.name[1:]}/{name}": inside[name] for name in inside}
            size = file.id.get_filesize()
        filled = [(one.offset, one.offset + one.nbytes) for one in layouts.values() if one.nbytes]
        parts = []
        start = 0
        for offset, end in [*sorted(filled), (size, size)]:
            if start < offset:
                parts.append((start, os.pread(scratch.fileno(), offset - start, start)))
            start = end
    return Structure(size, layouts, parts)


def bytes_of(values: npt.NDArray[np.generic]) -> memoryview:
    """The bytes of a contiguous array, not copied."""
    return values.reshape(-1).view(np.uint8).data if values.size else memoryview(b"")


def write_at(file: int, values: bytes | memoryview, offset: int) -> None:
    """Write bytes to a place in an open file, all of them or OSError.

    Args:
        file: its descriptor.
        values: the bytes.
        offset: of the first, from the start of the file.
    """
    left = memoryview(values)
    while left:
        count = os.pwrite(file, left, offset)
        left = left[count:]
        offset += count
