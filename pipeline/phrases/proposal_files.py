"""Boxes that another program proposes (EdgeBoxes, selective search, ...), from its files.

A folder with a file per image, named as the image: .npy, .txt or .mat with one array; or one file
of all: .npz or .h5 with an array per image id, .txt with the id before the numbers of each line,
.mat with the cells `images` and `boxes`. An array has a row per box, its four numbers and, where
there is one, its score behind them; without scores the order is that of the file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import h5py
import numpy as np

from pipeline.phrases.mat_files import damaged, load_mat
from pipeline.phrases.params import ProposalsConfig
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import fingerprint, sha256_file
from pipeline.runtime.process import say
from pipeline.runtime.text import read_text
from pipeline.storage.hdf5 import DAMAGE
from pipeline.storage.npy import DAMAGE as NPY_DAMAGE
from pipeline.storage.npy import ZIP_DAMAGE

MAX_BYTES = 1 << 26  # of an image's file: a million boxes
MAX_BOXES = 1 << 20  # of an image
TOLERANCE = 1.0  # pixels that a box may reach over the border: rounding
MAT_NAMES = ("boxes", "bbs")
WANTED = ("images", *MAT_NAMES)

Arrays = Mapping[str, Callable[[], np.ndarray]]  # name of an image -> reads its array


class ProposalFiles:
    """The proposals of images by their ids.

    Args:
        settings: the section phrases.proposals, of source file.
        images: ids of the images that are asked for.

    Raises:
        WorkbenchError: files that cannot be read, lack an image, or have others where these are not
            to be skipped.
    """

    def __init__(self, settings: ProposalsConfig, images: Sequence[str]) -> None:
        assert settings.path is not None, "checked with the parameters"
        self.settings, self.path = settings, Path(settings.path)
        self._arrays = _opened(self.path)
        self._names = {image: _name_of(image, self._arrays) for image in images}
        lost = [image for image, name in self._names.items() if name is None]
        if lost:
            raise WorkbenchError(f"{self.path}: no boxes of {len(lost):,} images: {listing(lost)}")
        others = sorted(set(self._arrays) - set(self._names.values()))
        if others and settings.other_images == "error":
            raise WorkbenchError(
                f"{self.path}: boxes of {len(others):,} images without phrases: {listing(others)}",
                "set phrases.proposals.other_images to skip to leave them out",
            )
        if others:
            say(f"left out: proposals of {len(others):,} images without phrases")

    def digest(self) -> str:
        """SHA-256 hex over the names and contents of the files."""
        files = sorted(self.path.iterdir()) if self.path.is_dir() else [self.path]
        own = [file for file in files if file.is_file()]
        return fingerprint(files=[[file.name, sha256_file(file)] for file in own])

    def __call__(self, image: str, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """The best proposals of an image.

        image: its id; size: width and height, pixels. Returns boxes (P, 4) float32 x1, y1, x2, y2
        in pixels and scores (P,) float32, best first, P at most settings.number. Raises
        WorkbenchError for boxes that are not of this image.
        """
        name = self._names[image]
        assert name is not None
        place = f"{self.path}: boxes of {name}"
        array = checked_array(place, self._arrays[name]())
        boxes = corners_of(array[:, :4], self.settings.order, self.settings.origin)
        check_boxes(place, boxes, size)
        boxes = np.clip(boxes, 0, np.tile(size, 2))
        falling = -np.arange(len(boxes), dtype=np.float64)
        scores = array[:, 4] if array.shape[1] == 5 else falling
        best = np.argsort(-scores, kind="stable")[: self.settings.number]
        return boxes[best].astype(np.float32), scores[best].astype(np.float32)


def checked_array(place: str, array: np.ndarray) -> np.ndarray:
    """An array of boxes as float64 (P, 4) or (P, 5); WorkbenchError, beginning with `place`, when
    it is none."""
    fits = array.ndim == 2 and array.shape[1] in (4, 5) and 0 < len(array) <= MAX_BOXES
    if not fits or array.dtype.kind not in "fiu":
        raise WorkbenchError(
            f"{place}: {array.dtype} of shape {array.shape}",
            "expected are rows of four numbers, or five with a score",
        )
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise WorkbenchError(f"{place}: values that are not finite")
    return array


def corners_of(boxes: np.ndarray, order: str, origin: int) -> np.ndarray:
    """Boxes (P, 4) as x1, y1, x2, y2 in pixels from 0.

    Args:
        boxes: as in the file.
        order: xyxy | xywh (a corner, width and height) | yxyx.
        origin: 0: edges, from 0; 1: pixels counted from 1, the last one inside (MATLAB).
    """
    boxes = boxes[:, [1, 0, 3, 2]] if order == "yxyx" else boxes
    first = boxes[:, :2] - origin
    return np.hstack([first, first + boxes[:, 2:] if order == "xywh" else boxes[:, 2:]])


def check_boxes(place: str, boxes: np.ndarray, size: tuple[int, int]) -> None:
    """Refuse boxes that cannot be of an image.

    Args:
        place: what the message begins with.
        boxes: (P, 4) x1, y1, x2, y2 in pixels.
        size: width and height of the image, pixels.

    Raises:
        WorkbenchError: boxes without area, or outside the image.
    """
    empty = ~(boxes[:, :2] < boxes[:, 2:]).all(1)
    outside = (boxes < -TOLERANCE).any(1) | (boxes > np.add(np.tile(size, 2), TOLERANCE)).any(1)
    for rows, what in ((empty, "without area"), (outside, f"outside its {size[0]} x {size[1]}")):
        if rows.any():
            shown = " ".join(f"{side:g}" for side in boxes[np.argmax(rows)])
            raise WorkbenchError(
                f"{place}: {int(rows.sum()):,} of {len(boxes):,} boxes {what} pixels, such as "
                f"x1 y1 x2 y2 = {shown}",
                "see phrases.proposals.order and origin in params.yaml",
            )


def _name_of(image: str, arrays: Arrays) -> str | None:
    """An image's name in the files: its id, its file's name, or that without the ending."""
    names = image, Path(image).name, Path(image).stem
    return next((name for name in names if name in arrays), None)


def _opened(path: Path) -> Arrays:
    if path.is_dir():
        files = [file for file in sorted(path.iterdir()) if file.suffix in _SINGLE]
        if not files:
            raise WorkbenchError(f"{path}: no files that end in {', '.join(_SINGLE)}")
        return {file.stem: _reader(file) for file in files}
    readers = {".npz": _npz, ".h5": _h5, ".hdf5": _h5, ".txt": _text, ".mat": _mat}
    if path.suffix not in readers:
        raise WorkbenchError(
            f"{path}: boxes of one image", "a .npy holds one: give the folder of all"
        )
    return readers[path.suffix](path)


def _reader(path: Path) -> Callable[[], np.ndarray]:
    def read() -> np.ndarray:
        if path.stat().st_size > MAX_BYTES:
            raise WorkbenchError(f"{path}: more than {MAX_BYTES:,} bytes")
        return _SINGLE[path.suffix](path)

    return read


def _npy(path: Path) -> np.ndarray:
    try:
        return np.asarray(np.load(path, allow_pickle=False, mmap_mode="r"))
    except (*NPY_DAMAGE, OSError, EOFError) as error:
        raise damaged(path, error) from None


def _single_text(path: Path) -> np.ndarray:
    return _numbers(str(path), enumerate((line.split() for line in _lines(path)), 1))


def _single_mat(path: Path) -> np.ndarray:
    found = load_mat(path, WANTED)
    named = [name for name in MAT_NAMES if name in found]
    if len(named) != 1:
        raise WorkbenchError(f"{path}: wanted is one of the variables {', '.join(MAT_NAMES)}")
    return np.asarray(found[named[0]])


def _npz(path: Path) -> Arrays:
    try:
        archive = np.load(path, allow_pickle=False)
        names = list(archive.files)
    except (*NPY_DAMAGE, *ZIP_DAMAGE, OSError) as error:
        raise damaged(path, error) from None

    def reader(name: str) -> Callable[[], np.ndarray]:
        def read() -> np.ndarray:
            if archive.zip.getinfo(f"{name}.npy").file_size > MAX_BYTES:
                raise WorkbenchError(f"{path}: {name} takes more than {MAX_BYTES:,} bytes")
            try:
                return np.asarray(archive[name])
            except (*NPY_DAMAGE, *ZIP_DAMAGE, OSError) as error:
                raise damaged(path, error) from None

        return read

    return {name: reader(name) for name in names}


def _h5(path: Path) -> Arrays:
    try:
        file = h5py.File(path, "r")
        names = [str(name) for name in file if isinstance(file.get(name, getlink=True),
                                                          h5py.HardLink)]  # fmt: skip
    except DAMAGE as error:
        raise damaged(path, error) from None

    def reader(name: str) -> Callable[[], np.ndarray]:
        def read() -> np.ndarray:
            try:
                node = file[name]
                if not isinstance(node, h5py.Dataset) or node.nbytes > MAX_BYTES:
                    raise WorkbenchError(f"{path}: {name} is no dataset of boxes")
                return np.asarray(node[()])
            except DAMAGE as error:
                raise damaged(path, error) from None

        return read

    return {name: reader(name) for name in names}


def _text(path: Path) -> Arrays:
    rows: dict[str, list[tuple[int, list[str]]]] = {}
    for number, line in enumerate(_lines(path), 1):
        name, *values = line.split()
        rows.setdefault(name, []).append((number, values))

    def reader(lines: list[tuple[int, list[str]]]) -> Callable[[], np.ndarray]:
        return lambda: _numbers(str(path), iter(lines))

    return {name: reader(lines) for name, lines in rows.items()}


def _mat(path: Path) -> Arrays:
    """The cells `images` and `boxes` of selective search's files, one entry an image."""
    found = load_mat(path, WANTED)
    if "images" not in found or "boxes" not in found:
        raise WorkbenchError(f"{path}: wanted are the cells images and boxes")
    names, boxes = (np.asarray(found[name]).ravel() for name in ("images", "boxes"))
    if names.dtype != object or boxes.dtype != object or len(names) != len(boxes):
        raise WorkbenchError(f"{path}: images and boxes are no cells of the same length")
    texts = [str(np.asarray(name).ravel()[0]) if np.size(name) else "" for name in names]
    if len(set(texts)) < len(texts):
        raise WorkbenchError(f"{path}: images that are there twice")
    return {text: partial(np.asarray, own) for text, own in zip(texts, boxes, strict=True)}


def _lines(path: Path) -> list[str]:
    return [line for line in read_text(path).splitlines() if line.strip()]


def _numbers(place: str, lines: Iterator[tuple[int, list[str]]]) -> np.ndarray:
    rows = []
    for number, values in lines:
        try:
            rows.append([float(value) for value in values])
        except ValueError:
            raise WorkbenchError(f"{place}, line {number}: not numbers") from None
        if len(rows[-1]) not in (4, 5) or len(rows[-1]) != len(rows[0]):
            raise WorkbenchError(f"{place}, line {number}: {len(values)} numbers, not 4 or 5")
    return np.array(rows)


_SINGLE: Mapping[str, Callable[[Path], np.ndarray]] = {
    ".npy": _npy,
    ".txt": _single_text,
    ".mat": _single_mat,
}
