"""The files of each split in a folder of VSE++ or SCAN, read image by image: which rows of the
array show an image, and which lines are its captions.

`train_ims.npy` has a row for each image, or repeats it for each of its captions; `train_caps.txt`
has a caption on each line; `train_ids.txt`, which may be missing, names the images. The reader
`precomp` makes images of these names, and `precomp` beside this file finds their rows again.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np

from pipeline.features.arrays.file import Array
from pipeline.features.arrays.npy import read_npy
from pipeline.features.matching.repeats import equal_to_previous, runs_of
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.first_bytes import explain
from pipeline.runtime.text import Problems, read_text

ARRAYS = "_ims.npy"
CAPTIONS = "_caps.txt"
IDS = "_ids.txt"
# What the files of a split are called; MS-COCO's `test` is the first part of its `testall`.
FILES = {"train": ("train",), "val": ("dev", "val"), "test": ("testall", "test")}
USUAL_CAPTIONS = 5  # of each image in Flickr8k, Flickr30k and MS-COCO, as VSE++ and SCAN assume
IMAGE_OF_EACH = "the id of the image of each row, one a line"
_ROOT = re.compile(r"([A-Za-z]:)?/+")


@dataclass(frozen=True)
class PrecompSplit:
    """The images of one split, in the order of its array.

    split: train, val or test. prefix: its files without their endings. shape: of the array,
    (N, D) or (N, R, D). images: M ids. are_named: whether the ids file says them; else they are
    made of the order. rows: of each image, the rows that show it. captions: of each image, its
    lines. remarks: lines for the user about what was assumed.
    """

    split: str
    prefix: Path
    shape: tuple[int, ...]
    images: list[str]
    are_named: bool
    rows: list[range]
    captions: list[list[str]]
    remarks: tuple[str, ...] = ()


def beside(prefix: Path, ending: str) -> Path:
    """A file of a split.

    Args:
        prefix: what the split's files have in common, such as `f30k_precomp/train`.
        ending: of the file, such as ARRAYS.

    Returns:
        Its path, such as `f30k_precomp/train_ims.npy`.
    """
    return prefix.with_name(prefix.name + ending)


def whole_splits(folder: Path) -> dict[str, Path]:
    """The splits of a folder that have both an array and captions.

    Args:
        folder: such as f30k_precomp.

    Returns:
        By split what its files have in common; of `testall` and `test` the first.
    """
    found = {}
    for split, names in FILES.items():
        for name in names:
            prefix = folder / name
            if all(beside(prefix, ending).is_file() for ending in (ARRAYS, CAPTIONS)):
                found[split] = prefix
                break
    return found


def file_lines(path: Path) -> list[str] | None:
    """The lines of a file without the blank ones at its end; None where it is missing."""
    # Not splitlines: captions hold characters that it takes for line ends.
    return read_text(path).rstrip("\r\n").split("\n") if path.is_file() else None


def read_split(prefix: Path, split: str) -> PrecompSplit:
    """The images of a split, by its array, its captions and, where it has them, its ids.

    Args:
        prefix: its files without their endings, as of `whole_splits`.
        split: train, val or test.

    Returns:
        The images. Values of the array are read only where it has as many rows as captions: rows
        that repeat the one before tell which captions are of one image.

    Raises:
        WorkbenchError: another shape, numbers of rows, captions and ids that do not fit together,
            or an id that comes back later.
    """
    array = _open_array(beside(prefix, ARRAYS))
    captions = [line.strip() for line in file_lines(beside(prefix, CAPTIONS)) or []]
    count = array.shape[0]
    ids = _read_ids(beside(prefix, IDS), count, len(captions))
    remarks: tuple[str, ...] = ()
    if len(captions) == count:
        repeats = 1
        if len(set(ids)) in (0, count):  # no ids, or ids that may number the captions
            repeats = _repeats(array, prefix)
        if ids and repeats > 1:
            where = beside(prefix, IDS).name
            remarks = (
                f"{where}: a different id for each of {repeats} equal rows, so it numbers the "
                "captions; images are numbered instead",
            )
            ids = []
        numbers = runs_of(ids) if ids else [repeats] * (count // repeats)
        rows = _ranges(numbers)
    else:
        numbers = _captions_of_rows(prefix, ids, count, len(captions))
        rows = [range(row, row + 1) for row in range(count)]
    lines = _ranges(numbers)
    firsts = rows if len(ids) == count else lines
    names = [ids[own.start] for own in firsts] if ids else []
    numbered = [[str(row) for row in range(start, start + len(names))] for start in (0, 1)]
    are_named = bool(names) and names not in numbered
    return PrecompSplit(
        split=split,
        prefix=prefix,
        shape=array.shape,
        images=names if are_named else [f"{split}/{number}" for number in range(len(rows))],
        are_named=are_named,
        rows=rows,
        captions=[captions[own.start : own.stop] for own in lines],
        remarks=remarks,
    )


def _open_array(path: Path) -> Array:
    """The array of a split; its values are not read yet."""
    other = explain(path, expected=("npy",))
    if other is not None:
        raise other
    array = read_npy(path).array("")
    array.check_floats()
    if len(array.shape) not in (2, 3) or min(array.shape) < 1:
        raise WorkbenchError(
            f"{path}: shape {array.shape}; expected are vectors (N, D) or regions (N, R, D)",
            "copy the file again, or save one row for each image",
        )
    return array


def _read_ids(path: Path, rows: int, captions: int) -> list[str]:
    """The ids of rows or of captions, none where there is no file of them."""
    lines = file_lines(path)
    if lines is None:
        return []
    # A path on somebody's disk names an image as well without its root.
    ids = [_ROOT.sub("", line.strip().replace("\\", "/"), count=1) for line in lines]
    if len(ids) not in (rows, captions):
        raise WorkbenchError(
            f"{path}: {len(ids):,} ids for {rows:,} rows of the array and {captions:,} captions",
            f"write {IMAGE_OF_EACH}, or move the file away: images are then numbered",
        )
    problems = Problems(str(path))
    empty = (str(number) for number, name in enumerate(ids, 1) if not name)
    problems.add("lines without an id, numbers", empty)
    runs = runs_of(ids)
    starts = [0, *accumulate(runs)][:-1]
    firsts = [ids[start] for start in starts]
    if len(set(firsts)) < len(firsts):
        again = [name for name, number in Counter(firsts).items() if number > 1]
        problems.add("ids that come back after others", map(ascii, again))
    problems.raise_if_any("rows and captions of one image must follow one another")
    return ids


def _repeats(array: Array, prefix: Path) -> int:
    """How many equal rows in a row each image has, 1 where none repeats the one before."""
    starts = np.flatnonzero(~equal_to_previous(array))
    runs = np.diff([*starts, array.shape[0]])
    if (runs == 1).all():
        return 1
    common = math.gcd(*runs.tolist())
    if common == 1:
        raise WorkbenchError(
            f"{beside(prefix, ARRAYS)}: {array.shape[0]:,} rows for as many captions, of which "
            f"{int((runs > 1).sum()):,} stand there up to {int(runs.max()):,} times in a row: "
            "nothing says which captions are of one image",
            f"write {beside(prefix, IDS).name} beside it: {IMAGE_OF_EACH}",
        )
    # equal neighbours make longer runs: of ten equal rows, two images are likelier than one
    return USUAL_CAPTIONS if common % USUAL_CAPTIONS == 0 else common


def _captions_of_rows(prefix: Path, ids: Sequence[str], rows: int, captions: int) -> list[int]:
    """How many captions each row has: by the ids of captions, or equally many."""
    if ids and len(ids) == captions:
        runs = runs_of(ids)
        if len(runs) == rows:
            return runs
        raise WorkbenchError(
            f"{beside(prefix, IDS)}: {len(runs):,} different ids for {rows:,} rows of the array",
            f"write {IMAGE_OF_EACH}",
        )
    if len(set(ids)) < len(ids):
        raise WorkbenchError(
            f"{beside(prefix, IDS)}: {len(set(ids)):,} different ids for {rows:,} rows of the "
            f"array, which has fewer rows than captions ({captions:,})",
            "an image has one row, or one for each of its captions",
        )
    if captions % rows:
        raise WorkbenchError(
            f"{beside(prefix, CAPTIONS)}: {captions:,} captions for {rows:,} rows of "
            f"{prefix.name}{ARRAYS}: not equally many for each image",
            f"copy both files again, or write {prefix.name}{IDS}: the id of the image of each "
            "caption, one a line",
        )
    return [captions // rows] * rows


def _ranges(numbers: Sequence[int]) -> list[range]:
    """Consecutive ranges of some lengths."""
    ends = list(accumulate(numbers))
    return [range(end - number, end) for number, end in zip(numbers, ends, strict=True)]


def described(splits: Sequence[PrecompSplit]) -> str:
    """What the arrays hold, for a line: vectors or regions, and of which width."""
    shapes = dict.fromkeys(own.shape[1:] for own in splits)
    return listing(
        f"vectors of {shape[0]:,} numbers"
        if len(shape) == 1
        else f"{shape[0]:,} regions of {shape[1]:,} numbers"
        for shape in shapes
    )
