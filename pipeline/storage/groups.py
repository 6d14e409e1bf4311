"""HDF5 files of named groups of arrays with different numbers of rows, written at once: score and
rank files. Their layout is otherwise that of feature files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import h5py
import numpy as np

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import atomic_path
from pipeline.storage.hdf5 import (
    Layout,
    damaged,
    mapped,
    opened,
    read_attributes,
    read_layouts,
    text_names,
    verify,
)
from pipeline.storage.layout import (
    Attributes,
    check_version,
    content_digest,
    digest_of,
    encode_ids,
    stored_attributes,
    take_digest,
    write_attributes,
)
from pipeline.storage.structure import structured

Groups = Mapping[str, Mapping[str, np.ndarray | Sequence[str]]]


def write_groups(path: Path | str, groups: Groups, attributes: Attributes) -> None:
    """Write groups of datasets atomically; equal content gives equal bytes. groups: group ->
    dataset -> array of numbers of any shape, or non-empty texts without NUL."""
    named = stored_attributes(attributes)
    arrays = {
        f"{group}/{name}": _stored(values)
        for group, datasets in groups.items()
        for name, values in datasets.items()
    }
    layouts = {n: Layout(n, a.shape, a.dtype, 0, digest_of(a)) for n, a in arrays.items()}

    def build(file: h5py.File) -> None:
        for group, datasets in groups.items():
            file.create_group(group)
            for name in datasets:
                _create_dataset(file, layouts[f"{group}/{name}"])
        write_attributes(file, named | {"sha256": content_digest(named, layouts)})

    size = sum(array.nbytes for array in arrays.values())
    with atomic_path(path, size) as temporary:
        structure = structured(build, size)
        structure.begin(temporary)
        structure.put(temporary, arrays)
        for datasets in GroupFile(temporary).layouts.values():
            for layout in datasets.values():
                verify(temporary, layout)


def encoded_texts(texts: Sequence[str]) -> np.ndarray:
    """(N,) fixed-length UTF-8 bytes; texts may repeat. WorkbenchError as `encode_ids`."""
    if not all(isinstance(text, str) for text in texts):
        raise WorkbenchError("ids and groups must be text")
    different = list(dict.fromkeys(texts))
    codes = dict(zip(different, encode_ids(different), strict=True))
    return np.array([codes[text] for text in texts])


class GroupFile:
    """A file of groups, its header checked when opened, each dataset's digest when read. layouts:
    of the datasets, by group and name; sha256: digest over the whole content."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        with opened(self.path) as file:
            self.attributes = read_attributes(file)
            self.layouts = {
                group: read_layouts(_group(file, group, self.path), self.path)
                for group in text_names(file)
            }
        check_version(self.path, self.attributes)
        flat = {
            f"{g}/{name}": x for g, inside in self.layouts.items() for name, x in inside.items()
        }
        self.sha256 = take_digest(self.path, self.attributes, flat)

    def names(self, group: str) -> set[str]:
        """The datasets of a group; WorkbenchError naming the groups there are."""
        if group not in self.layouts:
            groups = listing(self.layouts) or "no group"
            raise WorkbenchError(f"{self.path}: no group {group!r}; it has {groups}")
        return set(self.layouts[group])

    def array(self, group: str, name: str) -> np.ndarray:
        """A whole dataset in memory, checked against its digest."""
        return np.array(self.view(group, name))

    def view(self, group: str, name: str) -> np.ndarray:
        """A dataset in its file, read-only and paged in as it is touched, checked likewise."""
        if name not in self.names(group):
            names = listing(sorted(self.names(group)))
            raise WorkbenchError(f"{self.path}: no dataset {group}/{name}; {group} has {names}")
        layout = self.layouts[group][name]
        verify(self.path, layout)
        return mapped(self.path, layout)

    def texts(self, group: str, name: str) -> list[str]:
        """A dataset of texts; WorkbenchError when it holds something else."""
        array = self.array(group, name)
        try:
            if array.dtype.kind == "S" and array.ndim == 1:
                return [text.decode() for text in array.tolist()]
        except UnicodeDecodeError:
            pass
        raise damaged(self.path, f"{group}/{name} does not hold UTF-8 texts")


def _group(file: h5py.File, name: str, path: Path) -> h5py.Group:
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        raise WorkbenchError(f"{path}: {name!r} is a link to elsewhere; not followed")
    if not isinstance(file[name], h5py.Group):
        raise WorkbenchError(f"{path}: {name!r} is not a group: not a score or rank file")
    return file[name]


def _stored(values: np.ndarray | Sequence[str]) -> np.ndarray:
    array = values if isinstance(values, np.ndarray) else encoded_texts(values)
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))


def _create_dataset(file: h5py.File, layout: Layout) -> None:
    text = h5py.string_dtype("utf-8", layout.dtype.itemsize)
    kind = text if layout.dtype.kind == "S" else layout.dtype
    dataset = file.create_dataset(layout.name, layout.shape, kind, track_times=False)
    if layout.nbytes:  # the first value written gives a dataset its place
        dataset[(0,) * len(layout.shape)] = np.zeros((), layout.dtype)[()]
    write_attributes(dataset, {"sha256": layout.sha256 or ""})
