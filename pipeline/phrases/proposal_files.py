"""Boxes that another program proposes (EdgeBoxes, selective search, ...), from its files.

A folder with a file per image: .npy, .txt or .mat with one array; or one file of all: .npz or .h5
with an array per image id, .txt with the id before the numbers of each line, .mat with the cells
`images` and `boxes`. A row is a box, with its score behind it where there is one.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from pipeline.features.arrays.file import ArrayFile
from pipeline.features.arrays.formats import open_arrays
from pipeline.features.arrays.mat import load_mat
from pipeline.phrases.params import ProposalsConfig
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import say
from pipeline.runtime.text import read_text

MAX_BYTES = 1 << 26  # of an image: a million boxes
TOLERANCE = 1.0  # pixels that a box may reach over the border: rounding
SINGLE = (".npy", ".txt", ".mat")  # files of one image, in a folder
MAT_NAMES = ("boxes", "bbs")

Arrays = Mapping[str, Callable[[], np.ndarray]]  # name of an image -> reads its array


class ProposalFiles:
    """The boxes that another program proposes, image by image.

    Args:
        settings: the section `phrases.proposals`, with a path.
        images: ids of the images that have phrases.

    Raises:
        WorkbenchError: no boxes of some images; boxes of others, unless settings skip them.
    """

    def __init__(self, settings: ProposalsConfig, images: Sequence[str]) -> None:
        assert settings.path is not None, "checked with the parameters"
        self.settings = settings
        self.path = Path(settings.path)
        self._arrays = _opened(self.path)
        # its id, its file's name, or that without the ending
        names = {image: (image, Path(image).name, Path(image).stem) for image in images}
        matches = {
            image: [name for name in keys if name in self._arrays] for image, keys in names.items()
        }
        lost = [image for image, keys in matches.items() if not keys]
        if lost:
            raise WorkbenchError(f"{self.path}: no boxes of {len(lost):,} images: {listing(lost)}")
        self._names = {image: keys[0] for image, keys in matches.items()}
        others = sorted(set(self._arrays) - set(self._names.values()))
        if others and settings.other_images == "error":
            raise WorkbenchError(
                f"{self.path}: boxes of {len(others):,} images without phrases: {listing(others)}",
                "set phrases.proposals.other_images to skip to leave them out",
            )
        if others:
            say(f"left out: proposals of {len(others):,} images without phrases")

    def __call__(self, image: str, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """The boxes of an image, best first, at most settings.number.

        Args:
            image: its id.
            size: its width and height, pixels.

        Returns:
            Boxes (P, 4) float32 x1, y1, x2, y2 in pixels, and scores (P,) float32; boxes without
            scores have those of their order.

        Raises:
            WorkbenchError: an array that holds no boxes, boxes without area or outside the image.
        """
        name = self._names[image]
        place = f"{self.path}: boxes of {name}"
        array = checked_array(place, self._arrays[name]())
        boxes = corners_of(array[:, :4], self.settings.order, self.settings.origin)
        check_boxes(place, boxes, size)
        boxes = np.clip(boxes, 0, np.tile(size, 2))
        descending = -np.arange(len(boxes), dtype=np.float64)
        scores = array[:, 4] if array.shape[1] == 5 else descending
        best = np.argsort(-scores, kind="stable")[: self.settings.number]
        return boxes[best].astype(np.float32), scores[best].astype(np.float32)


def checked_array(place: str, array: np.ndarray) -> np.ndarray:
    """An array of boxes as float64.

    Args:
        place: what messages begin with.
        array: P rows of four numbers, or five with a score.

    Returns:
        (P, 4) or (P, 5).

    Raises:
        WorkbenchError: another shape or type, no rows, values that are not finite.
    """
    fits = array.ndim == 2 and array.shape[1] in (4, 5) and len(array) > 0
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
        boxes: (P, 4) as in the file.
        order: xyxy | xywh (a corner, width and height) | yxyx.
        origin: 0: edges, from 0; 1: pixels counted from 1, the last one inside (MATLAB).

    Returns:
        (P, 4) x1, y1, x2, y2: edges in pixels from 0, x2 and y2 after the last pixel.
    """
    boxes = boxes[:, [1, 0, 3, 2]] if order == "yxyx" else boxes
    first = boxes[:, :2] - origin
    return np.hstack([first, first + boxes[:, 2:] if order == "xywh" else boxes[:, 2:]])


def check_boxes(place: str, boxes: np.ndarray, size: tuple[int, int]) -> None:
    """Refuse boxes without area or outside their image.

    Args:
        place: what messages begin with.
        boxes: (P, 4) x1, y1, x2, y2 in pixels.
        size: width and height of the image, pixels; a box may reach TOLERANCE pixels over the
            border.

    Raises:
        WorkbenchError: there are such boxes; the message counts them and shows the first.
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


def _opened(path: Path) -> Arrays:
    if path.is_dir():
        files = [file for file in sorted(path.iterdir()) if file.suffix in SINGLE]
        if not files:
            raise WorkbenchError(f"{path}: no files that end in {', '.join(SINGLE)}")
        return {file.stem: partial(_single, file) for file in files}
    if path.suffix in (".txt", ".mat"):
        named = _lines(path, named=True) if path.suffix == ".txt" else _cells(path)
        return {name: partial(np.asarray, boxes) for name, boxes in named.items()}
    file = open_arrays(path)
    return {name: partial(_whole, file, name) for name in file.names}


def _single(path: Path) -> np.ndarray:
    if path.suffix == ".npy":
        return _whole(open_arrays(path), "")
    if path.suffix == ".txt":
        return _lines(path, named=False).get("", np.empty(0))
    arrays = load_mat(path, MAT_NAMES)
    if len(arrays.keys() & MAT_NAMES) != 1:
        raise WorkbenchError(f"{path}: wanted is one of the variables {', '.join(MAT_NAMES)}")
    return np.asarray(next(arrays[name] for name in MAT_NAMES if name in arrays))


def _whole(file: ArrayFile, name: str) -> np.ndarray:
    array = file.array(name)
    if array.nbytes > MAX_BYTES or array.dtype.hasobject or not array.shape:
        raise WorkbenchError(
            f"{array.place}: {array.dtype} of shape {array.shape}, {array.nbytes:,} bytes; "
            f"expected are boxes of an image, at most {MAX_BYTES:,} bytes"
        )
    return np.concatenate([np.empty((0, *array.shape[1:]), array.dtype), *array.blocks()])


def _lines(path: Path, named: bool) -> dict[str, np.ndarray]:
    """Boxes in lines of numbers, an image's name before them where they are `named`."""
    rows: dict[str, list[list[str]]] = {}
    for fields in filter(None, map(str.split, read_text(path).splitlines())):
        rows.setdefault(fields[0] if named else "", []).append(fields[int(named) :])
    try:
        return {name: np.array(boxes, np.float64) for name, boxes in rows.items()}
    except ValueError:
        raise WorkbenchError(f"{path}: lines without 4 or 5 numbers each") from None


def _cells(path: Path) -> dict[str, np.ndarray]:
    """The cells `images` and `boxes` of selective search's files, one entry an image."""
    cells = load_mat(path, ("images", "boxes"))
    names, boxes = (np.asarray(cells.get(name)).ravel() for name in ("images", "boxes"))
    if names.dtype != object or boxes.dtype != object or len(names) != len(boxes):
        raise WorkbenchError(f"{path}: wanted are the cells images and boxes of the same length")
    texts = [str(np.asarray(name).ravel()[0]) if np.size(name) else "" for name in names]
    if len(set(texts)) < len(texts):
        raise WorkbenchError(f"{path}: images that are there twice")
    return dict(zip(texts, boxes, strict=True))
