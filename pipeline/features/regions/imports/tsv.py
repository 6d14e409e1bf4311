"""TSV files of regions: those of bottom-up attention with six columns, and LXMERT's with ten.

No header; boxes and features are base64 of little-endian float32. LXMERT's files, which
py-bottom-up-attention writes, too, have the height before the width, and four more columns: the
numbers of objects and attributes (int64, or int32) and their confidences (float32). Published files
have a megabyte a line and tens of gigabytes in all: they are read once to find and check every
line, and again line by line for the values. The csv module is made for smaller fields, without
quotation marks.
"""

import base64
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pipeline.features.regions.file import ImageRegions
from pipeline.features.regions.source import (
    ImportCorpus,
    are_shares,
    check_sizes,
    checked_regions,
    files_of,
    largest_corner,
)
from pipeline.runtime.errors import WorkbenchError, counted
from pipeline.runtime.process import Progress

LONGEST_LINE = 1 << 26  # bytes; 100 boxes of 2,048 values take a megabyte
LARGEST_SIDE = 1 << 20  # pixels
BOTTOM_UP = ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features")
LXMERT = (
    "img_id",
    "img_h",
    "img_w",
    "objects_id",
    "objects_conf",
    "attrs_id",
    "attrs_conf",
    "num_boxes",
    "boxes",
    "features",
)
LAYOUTS = {len(fields): fields for fields in (BOTTOM_UP, LXMERT)}
SIDES = {"image_w": 0, "img_w": 0, "image_h": 1, "img_h": 1}  # their place in (width, height)
NUMBERS = (*SIDES, "num_boxes")
CLASSES = ("objects_id", "attrs_id")
CONFIDENCES = ("objects_conf", "attrs_conf")
FEWEST_ENDS = (
    48  # different ones by which halves are told; by chance so many are small once in 10^8
)
LARGEST_HALF = 100.0  # of a feature that is a half
MOST_CLASSES = 1 << 20  # a larger number is no class: the values are of another type
NUMBER = re.compile(rb"\d{1,9}")
OTHER_FORM = (
    "it is a table of another form, as VinVL's are: save the regions of each image as X.npy (K, D) "
    "in a folder, and name that with regions.source: scan_npy"
)
CUT = "the number of boxes is wrong, the values are no float32, or the line is cut short"


@dataclass(frozen=True)
class _Line:
    """A line that was checked: where it stands, and its short fields."""

    path: Path
    number: int  # of the line, from 1
    offset: int  # bytes from the start of the file
    length: int  # bytes, the line's end included
    name: str  # image_id
    size: tuple[int, int]  # width, height of the image in pixels
    count: int  # boxes
    width: int  # D
    corner: float  # the largest number of its boxes

    @property
    def place(self) -> str:
        return f"{self.path}, line {self.number:,} (image_id {self.name})"


class TsvRegions:
    """Regions in TSV files; see RegionSource.

    Args:
        path: a file, or a folder with *.tsv, *.tsv.0 and so on.
        corpus: whose images they are.

    Raises:
        WorkbenchError: for a line that is damaged, and for ids that are not those of the corpus.
    """

    has_boxes = True

    def __init__(self, path: Path, corpus: ImportCorpus) -> None:
        digest = hashlib.sha256()
        self.lines = [line for file in files_of(path, "*.tsv*") for line in _scan(file, digest)]
        # a line without boxes does not tell the width
        self.width = next((line.width for line in self.lines if line.width), 0)
        for line in self.lines:
            if line.count and line.width != self.width:
                raise WorkbenchError(
                    f"{line.place}: features of width {line.width:,} for {line.count} boxes; the "
                    f"first line's are {self.width:,} wide",
                    f"{CUT}, or the files are of different kinds",
                )
        check_sizes(str(path), 0, self.width)
        self.has_shares = are_shares((line.corner for line in self.lines), path)
        self.places, explained = corpus.match([line.name for line in self.lines], path)
        digest.update(explained.encode())
        self.digest = digest.hexdigest()
        self.order = np.argsort(self.places)
        longest = max((self.lines[index] for index in self.places), key=lambda line: line.count)
        self.most = longest.count
        self.most_name = longest.place

    def read(self, row: int) -> ImageRegions:
        """The regions of the image in a row of the corpus, decoded from its line; WorkbenchError
        naming file, line and id."""
        line = self.lines[self.places[row]]
        with open(line.path, "rb") as handle:
            handle.seek(line.offset)
            fields = handle.read(line.length).rstrip(b"\r\n").split(b"\t")
        texts = dict(zip(LAYOUTS[len(fields)], fields, strict=True))
        boxes = _values(line.place, texts, "boxes").reshape(line.count, 4)
        features = _values(line.place, texts, "features").reshape(line.count, self.width)
        _check_single(line.place, features)
        regions = checked_regions(line.place, line.size, boxes, features, self.has_shares)
        if len(texts) == len(BOTTOM_UP):
            return regions
        count = len(regions.features)
        return replace(
            regions,
            objects=_classes(line, texts, "objects_id")[:count],
            confidences=_values(line.place, texts, "objects_conf")[:count],
            attributes=_classes(line, texts, "attrs_id")[:count],
            attribute_confidences=_values(line.place, texts, "attrs_conf")[:count],
        )


def _values(place: str, texts: Mapping[str, bytes], name: str, kind: str = "<f4") -> np.ndarray:
    """Finite float32, or whole numbers of another kind, of a field; its length is right."""
    try:
        values = np.frombuffer(base64.b64decode(texts[name], validate=True), kind)
    except ValueError as error:  # the lengths were right when the file was scanned
        raise WorkbenchError(f"{place}: {name}: no base64 of values: {error}") from None
    return values.astype(np.float32) if kind == "<f4" else values.astype(np.int64)


def _check_single(place: str, features: np.ndarray) -> None:
    """Raise WorkbenchError for features that are halves (float16), of which two are read as one
    float32, or the two parts of a double.

    The lower 16 bits of a float32 are the end of its fraction: any bits. Those of two halves are a
    half of their own, which of a feature is never large. Zeros say nothing, for fewer digits end in
    them.
    """
    words = np.ascontiguousarray(features, "<f4").view("<u2").reshape(-1, 2)
    ends = np.unique(words[words[:, 0] != 0, 0])
    if len(ends) < FEWEST_ENDS:
        return
    halves = np.abs(ends.view("<f2"))
    if np.isfinite(halves).all() and halves.max() < LARGEST_HALF:
        raise WorkbenchError(
            f"{place}: features are halves (float16) by their bits; expected is float32",
            "write them again by array.astype('float32')",
        )


def _classes(line: _Line, texts: Mapping[str, bytes], name: str) -> np.ndarray:
    """Numbers of classes (K,), stored in eight bytes each or in four."""
    size = _decoded_length(line.place, name, texts[name]) // max(line.count, 1)
    numbers = _values(line.place, texts, name, f"<i{size or 8}")
    if (numbers < 0).any() or (numbers >= MOST_CLASSES).any():
        raise WorkbenchError(
            f"{line.place}: {name} has {numbers.max():,}, which is no number of a class",
            "the values are no whole numbers of int64 or int32",
        )
    return numbers


def _scan(path: Path, digest: "hashlib._Hash") -> Iterator[_Line]:
    """Every line's place and short fields; the lengths of the long ones are checked."""
    total = path.stat().st_size
    offset = 0
    number = 0
    shown = 0  # megabytes
    with (
        open(path, "rb") as handle,
        Progress(f"reading {path.name}", -(-total // 10**6), "MB") as progress,
    ):
        while data := handle.readline(LONGEST_LINE):
            number += 1
            digest.update(data)
            if len(data) == LONGEST_LINE and not data.endswith(b"\n"):
                raise WorkbenchError(f"{path}, line {number:,}: longer than {LONGEST_LINE:,} bytes")
            if data.strip():
                yield _parsed(path, number, offset, data)
            offset += len(data)
            progress.update(offset // 10**6 - shown)
            shown = offset // 10**6


def _parsed(path: Path, number: int, offset: int, data: bytes) -> _Line:
    fields = data.rstrip(b"\r\n").split(b"\t")
    place = f"{path}, line {number:,}"
    if len(fields) not in LAYOUTS:
        expected = ", or ".join(", ".join(names) for names in LAYOUTS.values())
        raise WorkbenchError(
            f"{place}: {counted(len(fields), 'field')} separated by tabs; expected are {expected}",
            OTHER_FORM
            if number == 1
            else "if it is the last line, the file was cut short: copy or unpack it again",
        )
    texts = dict(zip(LAYOUTS[len(fields)], fields, strict=True))
    for label, field in texts.items():
        if label in NUMBERS and not NUMBER.fullmatch(field):
            raise WorkbenchError(
                f"{place}: {label} is {field[:40]!r}, not a whole number (the file has no header)"
            )
    sides = {SIDES[label]: int(field) for label, field in texts.items() if label in SIDES}
    size = (sides[0], sides[1])
    count = int(texts["num_boxes"])
    name = fields[0].decode(errors="replace")
    place = f"{place} (image_id {name})"
    if not all(1 <= side <= LARGEST_SIDE for side in size):
        raise WorkbenchError(f"{place}: an image of {size[0]} x {size[1]} pixels")
    width = _columns(place, count, texts["boxes"], texts["features"])
    for label, text in texts.items():
        if label in CLASSES:
            _check_length(place, label, text, {4 * count, 8 * count})
        if label in CONFIDENCES:
            _check_length(place, label, text, {4 * count})
    return _Line(
        path=path,
        number=number,
        offset=offset,
        length=len(data),
        name=name,
        size=size,
        count=count,
        width=width,
        corner=largest_corner(_values(place, texts, "boxes")),
    )


def _check_length(place: str, label: str, text: bytes, allowed: Collection[int]) -> None:
    length = _decoded_length(place, label, text)
    if length not in allowed:
        sizes = " or ".join(f"{size:,}" for size in sorted(allowed))
        raise WorkbenchError(f"{place}: {label} hold {length:,} bytes; expected are {sizes}", CUT)


def _columns(place: str, count: int, boxes: bytes, features: bytes) -> int:
    """D, from the lengths of the base64 texts: nothing is decoded or allocated before they fit."""
    check_sizes(place, count, 1)  # before they are multiplied
    _check_length(place, "boxes", boxes, {16 * count})
    length = _decoded_length(place, "features", features)
    width, rest = divmod(length, 4 * count) if count else (0, length)
    if rest:
        raise WorkbenchError(
            f"{place}: features hold {length:,} bytes, which {count} rows of float32 cannot fill",
            CUT,
        )
    check_sizes(place, count, width if count else 1)
    return width


def _decoded_length(place: str, label: str, text: bytes) -> int:
    if len(text) % 4:
        raise WorkbenchError(
            f"{place}: {label} is base64 of {len(text):,} characters, not a multiple of 4",
            "the line is truncated, or its base64 was written as b'...' by another program",
        )
    return len(text) // 4 * 3 - (len(text) - len(text.rstrip(b"=")))


open_regions = TsvRegions
