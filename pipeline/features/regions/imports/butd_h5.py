"""HDF5 files of regions: those of bottom-up-attention-vqa with image_features, image_bb and
spatial_features, or others with datasets for each image (pipeline.features.regions.per_image).

The first are either (N, R, D) with the same number of regions everywhere (or with num_boxes, which
says how many of the R of each image count), or all regions end to
end, (T, D), with pos_boxes (N, 2) saying where each image's begin and end. Ids come with them as a
pickle, which is not read: next to X.hdf5 must lie X_ids.txt, X_ids.json (a list) or
X_imgid2idx.json (id -> row), or the file must have them as image_ids.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pipeline.features.arrays.file import Array, ArrayFile
from pipeline.features.arrays.hdf5 import read_hdf5
from pipeline.features.arrays.ids import listed_ids, read_ids
from pipeline.features.arrays.per_image import images_of_hdf5
from pipeline.features.hdf5 import opened
from pipeline.features.regions.file import ImageRegions
from pipeline.features.regions.per_image import PerImageRegions
from pipeline.features.regions.source import (
    ImportCorpus,
    RegionSource,
    are_shares,
    check_sizes,
    checked_regions,
    files_of,
    largest_corner,
)
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import sha256_file
from pipeline.runtime.text import read_json

WHOLE = "image_features"  # the datasets of all images
BOXES = "image_bb"
COUNTS = ("num_boxes", "num_bbox", "num_box", "num_bboxes", "num_rois")  # of images that are padded
IDS = ("image_ids", "image_id", "ids", "img_ids")  # of which the first is read
CONVERT = (
    "turn the pickle of ids into JSON with the program that wrote it: "
    "json.dump({str(k): int(v) for k, v in pickle.load(open(A, 'rb')).items()}, open(B, 'w'))"
)


def open_regions(path: Path, corpus: ImportCorpus) -> RegionSource:
    """Open one file or all of a folder, of the kind that the first is.

    Args:
        path: of the file or folder.
        corpus: whose images they are.

    Returns:
        Their regions.

    Raises:
        WorkbenchError: for a damaged file, and for ids that are not those of the corpus.
    """
    files = files_of(path, "*.h*5")
    if read_hdf5(files[0]).get(WHOLE) is None:
        return PerImageRegions(files, images_of_hdf5, corpus)
    return ButdRegions(path, corpus)


class ButdFile:
    """One file: shapes checked, values read by row.

    Attributes:
        names: N ids.
        starts: (N,) the first region of each image; `stops`: (N,) the one after its last.

    Raises:
        WorkbenchError: for datasets that do not fit each other, and for a file without ids.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        file = read_hdf5(path)
        shape = _array(file, WHOLE, (2, 3)).shape
        self.is_flat = len(shape) == 2
        self.width = shape[-1]
        self.has_spatial = "spatial_features" in file.names
        columns = {BOXES: 4} | ({"spatial_features": 6} if self.has_spatial else {})
        for name, count in columns.items():
            sizes = _array(file, name, (len(shape),)).shape
            if sizes != (*shape[:-1], count):
                raise WorkbenchError(
                    f"{path}: {name} {sizes} does not fit image_features {shape}: expected are "
                    f"{count} per box"
                )
        self.starts, self.stops = self._bounds(file, shape)
        self.names = _ids(file, len(self.starts))
        check_sizes(str(path), int((self.stops - self.starts).max()), self.width)

    def largest_corners(self) -> Iterator[float]:
        """The largest number of some boxes, of all boxes in their order."""
        for block in _array(read_hdf5(self.path), BOXES, (2, 3)).blocks():
            yield largest_corner(block)

    def values(self, name: str, row: int) -> np.ndarray:
        """The values of one image.

        Args:
            name: of the dataset.
            row: of the image in this file.

        Returns:
            (K, ...) float32.
        """
        own = slice(self.starts[row], self.stops[row])
        with opened(self.path) as file:
            return np.asarray(file[name][own] if self.is_flat else file[name][row, own], np.float32)

    def _bounds(self, file: ArrayFile, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        if not self.is_flat:
            count, slots = shape[:2]
            return np.zeros(count, np.int64), _counts(file, count, slots)
        places = _array(file, "pos_boxes", (2,), "iu")
        if places.shape[1] != 2 or places.shape[0] > shape[0]:
            raise WorkbenchError(f"{self.path}: pos_boxes {places.shape}; expected are (N, 2)")
        starts, stops = np.concatenate(list(places.blocks())).astype(np.int64).T
        bad = (starts < 0) | (stops <= starts) | (stops > shape[0])
        if bad.any():
            row = int(bad.argmax())
            raise WorkbenchError(
                f"{self.path}: pos_boxes, row {row:,}: {starts[row]} to {stops[row]} is no part of "
                f"the {shape[0]:,} regions"
            )
        return starts, stops


class ButdRegions:
    """Regions in files of bottom-up-attention-vqa; see RegionSource. The image's size follows from
    spatial_features (corners as shares of it), or is the corpus's. Boxes may be such shares, too.

    Args:
        path: a file, or a folder with several.
        corpus: whose images they are.

    Raises:
        WorkbenchError: for a damaged file, and for ids that are not those of the corpus.
    """

    has_boxes = True

    def __init__(self, path: Path, corpus: ImportCorpus) -> None:
        self.corpus = corpus
        self.files = [ButdFile(file) for file in files_of(path, "*.h*5")]
        self.width = self.files[0].width
        for file in self.files:
            if file.width != self.width:
                raise WorkbenchError(f"{file.path}: width {file.width:,}, others {self.width:,}")
        self.rows = [(file, row) for file in self.files for row in range(len(file.names))]
        corners = (corner for file in self.files for corner in file.largest_corners())
        self.has_shares = are_shares(corners, path)
        names = [name for file in self.files for name in file.names]
        self.places, explained = corpus.match(names, path)
        self.order = np.argsort(self.places)
        chosen = [self.rows[place] for place in self.places]
        counts = [int(file.stops[row] - file.starts[row]) for file, row in chosen]
        self.most = max(counts)
        self.most_name = self._place(int(np.argmax(counts)))
        digests = "\0".join(
            text for file in self.files for text in (sha256_file(file.path), *file.names)
        )
        self.digest = hashlib.sha256((digests + explained).encode()).hexdigest()

    def read(self, row: int) -> ImageRegions:
        """The regions of the image in a row of the corpus; WorkbenchError naming file, row and
        id."""
        file, number = self.rows[self.places[row]]
        place = self._place(row)
        features = file.values(WHOLE, number)
        boxes = file.values(BOXES, number)
        size = self.corpus.size(row)
        if file.has_spatial and not self.has_shares:
            size = _size(place, boxes, file.values("spatial_features", number))
        return checked_regions(place, size, boxes, features, self.has_shares)

    def _place(self, row: int) -> str:
        file, number = self.rows[self.places[row]]
        return f"{file.path}, row {number:,} (image_id {file.names[number]})"


def _counts(file: ArrayFile, count: int, slots: int) -> np.ndarray:
    """(N,) how many regions each image has, of its R slots: all, if the file has no such list."""
    name = next((own for own in COUNTS if own in file.names), None)
    if name is None:
        return np.full(count, slots, np.int64)
    array = _array(file, name, (1, 2), "iu")
    counts = np.concatenate(list(array.blocks())).astype(np.int64).ravel()
    if len(counts) != count or not ((counts >= 1) & (counts <= slots)).all():
        raise WorkbenchError(
            f"{array.place}: {len(counts):,} numbers of regions from {counts.min()} to "
            f"{counts.max()}; expected are {count:,} from 1 to {slots}",
            f"mend it, or take {name} out of the file if all {slots} regions count",
        )
    return counts


def _size(place: str, boxes: np.ndarray, spatial: np.ndarray) -> tuple[int, int]:
    """Width and height of the image, of which the first columns of spatial_features are shares."""
    sides = []
    for column in (2, 3):
        far = int(boxes[:, column].argmax())
        share = spatial[far, column]
        side = float(boxes[far, column] / share) if share > 0 else 0.0
        near = np.abs(spatial[:, [column - 2, column]] * side - boxes[:, [column - 2, column]])
        if not (0.5 <= side < 1 << 20) or not (near <= 1).all():
            raise WorkbenchError(
                f"{place}: spatial_features are not the corners of image_bb as shares of an image"
            )
        sides.append(round(side))
    return sides[0], sides[1]


def _array(file: ArrayFile, name: str, dims: tuple[int, ...], kinds: str = "f") -> Array:
    array = file.array(name)
    if array.dtype.kind not in kinds or len(array.shape) not in dims:
        raise WorkbenchError(f"{array.place} of type {array.dtype} and shape {array.shape}")
    return array


def _ids(file: ArrayFile, count: int) -> list[str]:
    """N ids of a file's rows: of the first of the three kinds of files that is there, or those
    inside it."""
    path = file.path
    endings = ("ids.txt", "ids.json", "imgid2idx.json")
    files = [path.with_name(f"{path.stem}_{ending}") for ending in endings]
    beside = next(filter(Path.is_file, files), None)
    if beside is None:
        inside = next((name for name in IDS if name in file.names), None)
        ids = None if inside is None else read_ids(file, inside)
        if ids is not None:
            return _checked(ids.names, count, path)
        names = ", ".join(one.name for one in files)
        text = f"{path}: no ids: looked for {names} and, in the file, {listing(IDS)}"
        raise WorkbenchError(text, CONVERT)
    if beside == files[-1]:
        values = read_json(beside)
        rows = list(values.values()) if isinstance(values, dict) else []
        if any(type(row) is not int for row in rows) or sorted(rows) != list(range(count)):
            raise WorkbenchError(f"{beside}: not a mapping of ids to the rows 0 to {count - 1:,}")
        return sorted(values, key=values.__getitem__)
    return _checked(listed_ids(beside), count, path)


def _checked(names: list[str], count: int, path: Path) -> list[str]:
    if len(names) != count:
        raise WorkbenchError(f"{path}: {len(names):,} ids for {count:,} rows of the HDF5 file")
    return names
