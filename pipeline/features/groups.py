"""HDF5 files of named groups of arrays with different numbers of rows, written at once: scores,
ranks, encoders, attention.

`write_groups` writes one and `GroupFile` reads one. Attributes, digests and datasets are those of
feature files (`pipeline.features.layout`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import h5py
import numpy as np

from pipeline.features.hdf5 import (
    Layout,
    damaged,
    mapped,
    opened,
    read_attributes,
    read_layouts,
    text_names,
    verify,
)
from pipeline.features.layout import (
    Attributes,
    array_digest,
    build_structure,
    check_version,
    content_digest,
    create_dataset,
    encode_ids,
    stored_attributes,
    take_digest,
    write_attributes,
)
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import atomic_path

Groups = Mapping[str, Mapping[str, np.ndarray | Sequence[str]]]


def write_groups(path: Path | str, groups: Groups, attributes: Attributes) -> None:
    """Write groups of datasets atomically; equal content gives equal bytes.

    Args:
        path: of the file.
        groups: group -> dataset -> an array of numbers of any shape, or non-empty texts without
            NUL, which may repeat.
        attributes: what the file says of its content.

    Raises:
        WorkbenchError: for texts and attributes that cannot be stored, and for a disk without room.
    """
    named = stored_attributes(attributes)
    arrays = {
        f"{group}/{name}": _stored(values)
        for group, datasets in groups.items()
        for name, values in datasets.items()
    }
    layouts = {n: Layout(n, a.shape, a.dtype, 0, array_digest(a)) for n, a in arrays.items()}

    def build(file: h5py.File) -> None:
        for group, datasets in groups.items():
            file.create_group(group)
            for name in datasets:
                create_dataset(file, layouts[f"{group}/{name}"])
        write_attributes(file, named | {"sha256": content_digest(named, layouts)})

    size = sum(array.nbytes for array in arrays.values())
    with atomic_path(path, size) as temporary:
        structure = build_structure(build, size)
        structure.create(temporary)
        structure.write(temporary, arrays)
        for datasets in GroupFile(temporary).layouts.values():
            for layout in datasets.values():
                verify(temporary, layout)


def encoded_texts(texts: Sequence[str]) -> np.ndarray:
    """(N,) fixed-length UTF-8 bytes of N texts, which may repeat. Raises WorkbenchError for values
    that are no text, and for texts that `encode_ids` refuses."""
    if not all(isinstance(text, str) for text in texts):
        raise WorkbenchError("ids and groups must be text")
    different = list(dict.fromkeys(texts))
    codes = dict(zip(different, encode_ids(different), strict=True))
    return np.array([codes[text] for text in texts])


class GroupFile:
    """A file of groups: its header is checked when it is opened, a dataset's digest when it is
    read.

    Args:
        path: the file.

    Attributes:
        attributes: what the file says of its content.
        layouts: where the datasets lie, by group and name.
        sha256: digest over the whole content.

    Raises:
        WorkbenchError: for a file that is missing, damaged or no file of groups.
    """

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
            f"{group}/{name}": layout
            for group, layouts in self.layouts.items()
            for name, layout in layouts.items()
        }
        self.sha256 = take_digest(self.path, self.attributes, flat)

    def names(self, group: str) -> set[str]:
        """The datasets of a group; WorkbenchError naming the groups there are."""
        if group not in self.layouts:
            groups = listing(self.layouts) or "no group"
            raise WorkbenchError(f"{self.path}: no group {group!r}; it has {groups}")
        return set(self.layouts[group])

    def array(self, group: str, name: str) -> np.ndarray:
        """A whole dataset in memory.

        Args:
            group: of the dataset.
            name: of the dataset in its group.

        Returns:
            Its values in their own shape and type.

        Raises:
            WorkbenchError: where there is no such dataset, or its bytes have another digest.
        """
        return np.array(self.view(group, name))

    def view(self, group: str, name: str) -> np.ndarray:
        """A dataset in its file, read-only and paged in as it is touched.

        Args:
            group: of the dataset.
            name: of the dataset in its group.

        Returns:
            Its values in their own shape and type.

        Raises:
            WorkbenchError: where there is no such dataset, or its bytes have another digest.
        """
        if name not in self.names(group):
            names = listing(sorted(self.names(group)))
            raise WorkbenchError(f"{self.path}: no dataset {group}/{name}; {group} has {names}")
        layout = self.layouts[group][name]
        verify(self.path, layout)
        return mapped(self.path, layout)

    def texts(self, group: str, name: str) -> list[str]:
        """A dataset of texts.

        Args:
            group: of the dataset.
            name: of the dataset in its group.

        Returns:
            Its N texts.

        Raises:
            WorkbenchError: where there is no such dataset, it is damaged, or it holds no texts.
        """
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
