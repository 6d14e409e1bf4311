"""Arrays of their own for each image: datasets of an HDF5 file, or files of a folder.

- HDF5: `17_features` and `17_boxes`, as the detections of the meshed-memory transformer; a group
  `17` with `features` and `boxes`; or one dataset under the image's name;
- a folder: `17.npy`, or `17.npz` with `feat` and `bbox`, as the features of captioning code; or
  folders in it, as the images have them: `train/17.npy`.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import h5py

from pipeline.features.arrays.file import Array
from pipeline.features.arrays.formats import open_arrays
from pipeline.features.arrays.hdf5 import checked_dataset, read_rows
from pipeline.features.hdf5 import opened, text_names
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import Progress

FEATURES = ("features", "image_features", "feat", "feats", "x")
BOXES = ("boxes", "bbox", "bboxes", "image_bb")
ENDINGS = (".npy", ".npz")
MOST_ARRAYS = 1 << 23
_OF_MANY = re.compile(r"_ims$|^(?:img|text)_emb_\d+$")


@dataclass(frozen=True)
class ImageArrays:
    """The arrays of one image."""

    name: str  # its id
    path: Path
    features: Array
    boxes: Array | None  # None where there are none


def is_folder_of_images(path: Path) -> bool:
    """Whether a folder has a file of an array, or folders with some, which may be of images."""
    return path.is_dir() and bool(_files(path))


def images_of_folder(path: Path) -> list[ImageArrays]:
    """The images of a folder of .npy or .npz files by name, with the folders that these lie in;
    WorkbenchError for other arrays."""
    files = _files(path)
    found = []
    with Progress(f"reading {path.name}", len(files), "images") as progress:
        for file in files:
            name = file.relative_to(path).as_posix().removesuffix(file.suffix)
            found.append(_of_file(file, name))
            progress.update()
    return found


def images_of_hdf5(path: Path) -> list[ImageArrays]:
    """The images of an HDF5 file in its order; WorkbenchError where it has none."""
    with opened(path) as file:
        names = dataset_names(file, path)
        features = _layout(names)
        if not features:
            raise WorkbenchError(
                f"{path}: no arrays of images, such as 17_features or 17/features; it has "
                f"{listing(names) or 'no dataset'}",
                "rename them so, with h5py: file.move('OLD', 'NEW')",
            )
        boxes = _by_image(names, BOXES)
        found = []
        with Progress(f"reading {path.name}", len(features), "images") as progress:
            for name, dataset in features.items():
                corners = _dataset(file, path, boxes[name]) if name in boxes else None
                found.append(ImageArrays(name, path, _dataset(file, path, dataset), corners))
                progress.update()
    return found


def _files(folder: Path) -> list[Path]:
    """The arrays of a folder or, where it has none, of the folders in it; not those of whole splits
    or parts, which VSE++ and clip-retrieval write into theirs."""
    own = _arrays(folder)
    if own:
        return own
    inside = sorted(Path(place) for place, _, _ in os.walk(folder))
    nested = [file for place in inside for file in _arrays(place)]
    return [] if any(_OF_MANY.search(file.stem) for file in nested) else nested


def _arrays(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix in ENDINGS and file.is_file())


def _of_file(path: Path, name: str) -> ImageArrays:
    """The arrays of a file. name: of its image."""
    file = open_arrays(path)
    if path.suffix == ".npy":
        return ImageArrays(name, path, file.array(""), None)
    chosen = [array for array in FEATURES if array in file.names] or list(file.names)[:1]
    corners = [array for array in BOXES if array in file.names]
    features = file.array(chosen[0] if chosen else FEATURES[0])
    return ImageArrays(name, path, features, file.array(corners[0]) if corners else None)


def _dataset(file: h5py.File, path: Path, name: str) -> Array:
    data = checked_dataset(file, path, name)
    if data is None:
        raise WorkbenchError(f"{path}: no array {name!r}")
    return Array(f"{path}, array {name}", data.shape, data.dtype, partial(read_rows, path, name))


def _layout(names: list[str]) -> Mapping[str, str]:
    """The dataset of features by the id of its image; the last layout is that of plain names."""
    plain = {name: name for name in names if _parted(name, BOXES) is None}
    return _by_image(names, FEATURES) or plain


def _by_image(names: list[str], words: tuple[str, ...]) -> dict[str, str]:
    parted = ((_parted(name, words), name) for name in names)
    return {image: name for image, name in parted if image is not None}


def _parted(name: str, words: tuple[str, ...]) -> str | None:
    """The id in `17_features` or `17/features`; None for a name that does not end so."""
    for word in words:
        for sign in ("/", "_"):
            end = f"{sign}{word}"
            if name.endswith(end) and len(name) > len(end):
                return name.removesuffix(end)
    return None


def dataset_names(file: h5py.File, path: Path) -> list[str]:
    """Names of all datasets, those in groups with the groups' names; links to elsewhere are passed
    over, and a group that is linked several times is entered once.

    Args:
        file: opened for reading.
        path: of the file, for messages.

    Returns:
        The names in the order of the file, `group/name` in groups.

    Raises:
        WorkbenchError: for more than MOST_ARRAYS datasets.
    """
    names: list[str | bytes] = []

    def note(name: str | bytes, link: h5py.HardLink | h5py.SoftLink | h5py.ExternalLink) -> None:
        if isinstance(link, h5py.HardLink) and file.get(name, getclass=True) is h5py.Dataset:
            names.append(name)
        if len(names) > MOST_ARRAYS:
            raise WorkbenchError(f"{path}: more than {MOST_ARRAYS:,} datasets")

    file.visititems_links(note)
    return text_names(names)
