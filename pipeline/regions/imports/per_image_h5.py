"""HDF5 files with datasets of their own for each image, in one of three layouts:

- `17_features` (K, D) and `17_boxes` (K, 4): the detections of the meshed-memory transformer, where
  17 is MS-COCO's number of the image;
- a group for each image with `features` and `boxes`;
- one dataset (K, D) for each image, under its name.

Boxes are x1, y1, x2, y2 in pixels of the corpus's image; where none in the file exceeds 1 they are
shares of it. Other datasets, such as the probabilities of classes, are not read.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from pipeline.arrays.hdf5 import checked_dataset
from pipeline.regions.file import ImageRegions
from pipeline.regions.imports.source import ImportCorpus, check_sizes, checked_regions, files_of
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import sha256_file
from pipeline.runtime.process import Progress, say
from pipeline.storage.hdf5 import opened, text_names

FEATURES = ("features", "image_features", "feat", "feats")
BOXES = ("boxes", "bbox", "bboxes", "image_bb")
DEPTH = 8  # of groups
MOST_DATASETS = 1 << 23
SHARES = 1.0 + 1e-4  # boxes up to this are shares of the image; the rest is rounding


@dataclass(frozen=True)
class Entry:
    """One image of a file. name: its id; features, boxes: names of datasets."""

    path: Path
    name: str
    features: str
    boxes: str | None
    count: int  # K
    width: int  # D
    far: float  # the largest corner, 0 without boxes

    @property
    def place(self) -> str:
        return f"{self.path}, array {self.features}"


class PerImageRegions:
    """Regions in one such file or all of a folder; see RegionSource."""

    def __init__(self, path: Path, corpus: ImportCorpus) -> None:
        self.corpus = corpus
        files = files_of(path, "*.h*5")
        self.entries = [entry for file in files for entry in _entries(file)]
        first = self.entries[0]
        self.width = first.width
        self.has_boxes = first.boxes is not None
        for entry in self.entries:
            if entry.width != self.width:
                others = f"{first.place} has {self.width:,}"
                raise WorkbenchError(f"{entry.place}: width {entry.width:,}; {others}")
            if (entry.boxes is not None) != self.has_boxes:
                raise WorkbenchError(
                    f"{entry.place}: {'no ' if self.has_boxes else ''}boxes beside it, unlike "
                    f"{first.place}",
                    "take the boxes out of the file or write those of every image",
                )
        self.has_shares = self.has_boxes and max(entry.far for entry in self.entries) <= SHARES
        if self.has_shares:
            say(f"{path}: no corner of a box exceeds 1, so boxes are shares of the image's sides")
        self.places, explained = corpus.match([entry.name for entry in self.entries], path)
        self.order = np.argsort(self.places)
        longest = max((self.entries[at] for at in self.places), key=lambda entry: entry.count)
        self.most = longest.count
        self.most_name = longest.place
        digests = "".join(sha256_file(file) for file in files)
        self.digest = hashlib.sha256((digests + explained).encode()).hexdigest()

    def read(self, row: int) -> ImageRegions:
        """Regions of one image; WorkbenchError naming file and dataset."""
        entry = self.entries[self.places[row]]
        size = self.corpus.size(row)
        with opened(entry.path) as file:
            features = np.asarray(file[entry.features][:], np.float32)
            boxes = np.zeros((entry.count, 4), np.float32)
            if entry.boxes is not None:
                boxes = np.asarray(file[entry.boxes][:], np.float32)
        if self.has_shares:
            boxes *= np.array([*size, *size], np.float32)
        return checked_regions(entry.place, size, boxes, features)


def _entries(path: Path) -> list[Entry]:
    """The images of a file in its order; shapes are checked, and the boxes' corners looked at."""
    with opened(path) as file:
        names = list(_datasets(file, path))
        features = _layout(names)
        if not features:
            raise WorkbenchError(
                f"{path}: no regions: neither image_features nor datasets of each image, such as "
                f"17_features or 17/features; it has {listing(names) or 'no dataset'}"
            )
        boxes = _by_image(names, BOXES)
        entries = []
        with Progress(f"reading {path.name}", len(features), "images") as progress:
            for name, dataset in features.items():
                entries.append(_entry(file, path, name, dataset, boxes.get(name)))
                progress.update()
    return entries


def _layout(names: list[str]) -> dict[str, str]:
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


def _datasets(file: h5py.File, path: Path) -> Iterator[str]:
    """Names of all datasets, those in groups with the groups' names; links are passed over."""
    waiting = [("", 0)]
    count = 0
    while waiting:
        group, depth = waiting.pop()
        node = file[group] if group else file
        for name in text_names(node):
            whole = f"{group}/{name}" if group else name
            if not isinstance(node.get(name, getlink=True), h5py.HardLink):
                continue
            kind = node.get(name, getclass=True)
            if kind is h5py.Group and depth < DEPTH:
                waiting.append((whole, depth + 1))
            elif kind is h5py.Dataset:
                count += 1
                yield whole
        if count + len(waiting) > MOST_DATASETS:
            raise WorkbenchError(f"{path}: more than {MOST_DATASETS:,} datasets")


def _entry(file: h5py.File, path: Path, name: str, features: str, boxes: str | None) -> Entry:
    place = f"{path}, array {features}"
    shape = _checked(file, path, features).shape
    if len(shape) != 2:
        raise WorkbenchError(f"{place}: shape {shape}; expected are regions (K, D)")
    count, width = shape
    check_sizes(place, count, width)
    far = 0.0
    if boxes is not None:
        data = _checked(file, path, boxes)
        if data.shape != (count, 4):
            raise WorkbenchError(
                f"{path}, array {boxes}: shape {data.shape}; {features} has {count:,} regions, so "
                f"expected is ({count}, 4)"
            )
        far = float(np.nanmax(data[:])) if count else 0.0
    return Entry(path, name, features, boxes, count, width, far)


def _checked(file: h5py.File, path: Path, name: str) -> h5py.Dataset:
    data = checked_dataset(file, path, name)
    if data is None or data.dtype.kind != "f":
        kind = "nothing" if data is None else data.dtype
        raise WorkbenchError(f"{path}, array {name}: of type {kind}; expected are floats")
    return data
