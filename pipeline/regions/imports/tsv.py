"""The TSV files of bottom-up attention: image_id, width, height, number of boxes, boxes, features.

No header; boxes and features are base64 of little-endian float32. Published files have a megabyte a
line and tens of gigabytes in all: they are read once to find and check every line, and again line
by line for the values. The csv module is made for smaller fields, without quotation marks.
"""

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.regions.file import ImageRegions
from pipeline.regions.imports.ids import ImageMatcher
from pipeline.regions.imports.source import ImportCorpus, check_sizes, checked_regions, files_of
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress

LONGEST_LINE = 1 << 26  # bytes; 100 boxes of 2,048 values take a megabyte
LARGEST_SIDE = 1 << 20  # pixels
FIELDS = ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features")
NUMBER = re.compile(rb"\d{1,9}")
CUT = "the number of boxes is wrong, the values are no float32, or the line is cut short"


@dataclass(frozen=True)
class Line:
    path: Path
    number: int  # of the line, from 1
    offset: int  # bytes from the start of the file
    length: int  # bytes, the line's end included
    name: str  # image_id
    size: tuple[int, int]  # width, height of the image in pixels
    count: int  # boxes
    width: int  # D

    @property
    def place(self) -> str:
        return f"{self.path}, line {self.number:,} (image_id {self.name})"


class TsvRegions:
    """Regions in one TSV file or in all of a folder (*.tsv, *.tsv.0, ...); see RegionSource."""

    has_boxes = True

    def __init__(self, path: Path, corpus: ImportCorpus) -> None:
        digest = hashlib.sha256()
        self.lines = [line for file in files_of(path, "*.tsv*") for line in _scan(file, digest)]
        self.digest = digest.hexdigest()
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
        matcher = ImageMatcher(corpus.images["image_id"].tolist(), corpus.skip_others)
        self.places = matcher.match([line.name for line in self.lines], str(path))
        self.order = np.argsort(self.places)
        longest = max((self.lines[index] for index in self.places), key=lambda line: line.count)
        self.most, self.most_name = longest.count, longest.place

    def read(self, row: int) -> ImageRegions:
        """Decode one line; WorkbenchError naming file, line and id."""
        line = self.lines[self.places[row]]
        with open(line.path, "rb") as handle:
            handle.seek(line.offset)
            fields = handle.read(line.length).rstrip(b"\r\n").split(b"\t")
        try:
            boxes, features = (
                np.frombuffer(base64.b64decode(text, validate=True), "<f4").astype(np.float32)
                for text in fields[4:]
            )
            boxes = boxes.reshape(line.count, 4)
            features = features.reshape(line.count, self.width)
        except ValueError as error:  # the lengths were right when the file was scanned
            raise WorkbenchError(f"{line.place}: no base64 of float32 values: {error}") from None
        return checked_regions(line.place, line.size, boxes, features)


def _scan(path: Path, digest: "hashlib._Hash") -> Iterator[Line]:
    """Every line's place and short fields; the lengths of the long ones are checked."""
    total = path.stat().st_size
    offset = number = shown = 0
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


def _parsed(path: Path, number: int, offset: int, data: bytes) -> Line:
    fields = data.rstrip(b"\r\n").split(b"\t")
    place = f"{path}, line {number:,}"
    if len(fields) != len(FIELDS):
        raise WorkbenchError(
            f"{place}: {len(fields)} fields separated by tabs; expected are {', '.join(FIELDS)}",
            "if it is the last line, the file was cut short: copy or unpack it again",
        )
    for label, field in zip(FIELDS[1:4], fields[1:4], strict=True):
        if not NUMBER.fullmatch(field):
            raise WorkbenchError(
                f"{place}: {label} is {field[:40]!r}, not a whole number (the file has no header)"
            )
    width, height, count = map(int, fields[1:4])
    name = fields[0].decode(errors="replace")
    place = f"{place} (image_id {name})"
    if not (1 <= width <= LARGEST_SIDE and 1 <= height <= LARGEST_SIDE):
        raise WorkbenchError(f"{place}: an image of {width} x {height} pixels")
    columns = _columns(place, count, fields[4], fields[5])
    return Line(path, number, offset, len(data), name, (width, height), count, columns)


def _columns(place: str, count: int, boxes: bytes, features: bytes) -> int:
    """D, from the lengths of the base64 texts: nothing is decoded or allocated before they fit."""
    check_sizes(place, count, 1)  # before they are multiplied
    length, expected = _decoded_length(place, "boxes", boxes), 16 * count
    if length != expected:
        raise WorkbenchError(
            f"{place}: boxes hold {length:,} bytes; {count} boxes as float32 take {expected:,}", CUT
        )
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
