"""How a feature file is laid out: created empty, its datasets in a fixed order, filled in place,
sealed with its digests. Equal content gives equal bytes."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.storage.hdf5 import Layout, damaged, opened, read_attributes, read_layouts
from pipeline.storage.structure import Structure, raw, structured

SCHEMA_VERSION = 1
NO_DIGEST = "0" * 64
ALIGNMENT = 64
MAX_TEXT_BYTES = 60_000  # an HDF5 object header holds 64 KiB
UNFIT = re.compile("[\0\ud800-\udfff]")  # NUL, and surrogates, which are not text

Attributes = Mapping[str, str | int | float]
Array = np.ndarray[Any, np.dtype[Any]]
Datasets = Mapping[str, tuple[tuple[int, ...], npt.DTypeLike]]  # name -> (shape of a row, dtype)


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


def structure_of(
    ids: Array,
    datasets: Datasets,
    attributes: Attributes,
    digests: Mapping[str, str] | None = None,
) -> Structure:
    """The structure of a feature file. ids: (N,) fixed-length UTF-8 bytes; datasets: created in
    this order; digests: of every dataset, by name, None while the file is not readable."""
    named = stored_attributes(attributes)
    kinds = {"ids": (ids.shape, ids.dtype)}
    for name, (row, dtype) in datasets.items():
        kinds[name] = (len(ids), *row), np.dtype(dtype).newbyteorder("<")
        if kinds[name][1].kind not in "fiu":
            raise WorkbenchError(f"{name}: values of type {kinds[name][1]}; allowed are numbers")
    sealed = NO_DIGEST
    if digests is not None:
        layouts = {n: Layout(n, *kind, 0, digests[n]) for n, kind in kinds.items()}
        sealed = content_digest(named, layouts)

    def build(file: h5py.File) -> None:
        write_attributes(file, named | {"sha256": sealed})
        for name, (shape, dtype) in kinds.items():
            kind = h5py.string_dtype("utf-8", dtype.itemsize) if name == "ids" else dtype
            # Space is taken at once so that the offset is known and rows can be written in place.
            layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            dataset = file.create_dataset(name, shape, kind, track_times=False, dcpl=layout)
            write_attributes(dataset, {"sha256": digests[name] if digests else NO_DIGEST})

    # Aligned, so that a memory map of a dataset is an ordinary array to numpy.
    size = sum(math.prod(shape) * dtype.itemsize for shape, dtype in kinds.values())
    return structured(build, size, alignment_threshold=1, alignment_interval=ALIGNMENT)


def stored_attributes(attributes: Attributes) -> dict[str, str | int | float]:
    """The caller's attributes with the version of this layout, as they are written."""
    return {**attributes, "schema_version": SCHEMA_VERSION}


def checked(name: str, values: Array, dtype: npt.DTypeLike, ids: Sequence[str]) -> Array:
    """Values (n, ...) as contiguous little-endian `dtype`; WorkbenchError for values that are not
    finite or that `dtype` cannot hold, with `name` and the first of the rows' ids (n,)."""
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


def read_back(path: Path) -> dict[str, Layout]:
    """The datasets of a finished file; WorkbenchError unless its header has its digest."""
    with opened(path) as file:
        attributes, layouts = read_attributes(file), read_layouts(file, path)
    take_digest(path, attributes, layouts)
    return layouts


def take_digest(
    path: Path, attributes: dict[str, str | int | float], layouts: Mapping[str, Layout]
) -> str:
    """The digest over a file's content, taken from its attributes; checks the header by it."""
    digest = str(attributes.pop("sha256", ""))
    if digest != content_digest(attributes, layouts):
        raise damaged(path, "the header does not match its sha256")
    return digest


def check_version(path: Path, attributes: Attributes) -> None:
    """Raise WorkbenchError for a file of another version of the layout."""
    version = attributes.get("schema_version")
    if version != SCHEMA_VERSION:
        raise WorkbenchError(
            f"{path}: schema_version {version}; this version reads {SCHEMA_VERSION}",
            "write the file again with: dvc repro",
        )


def digest_of(values: Array) -> str:
    """SHA-256 hex over the bytes of a contiguous array of any shape."""
    return hashlib.sha256(raw(values)).hexdigest()


def content_digest(attributes: Attributes, layouts: Mapping[str, Layout]) -> str:
    """SHA-256 hex over attributes, dataset names, types, shapes and digests."""
    described = {
        name: [layout.dtype.str, layout.shape, layout.sha256] for name, layout in layouts.items()
    }
    text = json.dumps([attributes, described], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def write_attributes(node: h5py.Group | h5py.Dataset, values: Attributes) -> None:
    """Attach texts and numbers, in the order of their names and the digest last."""
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
