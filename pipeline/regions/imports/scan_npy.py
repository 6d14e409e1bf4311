"""The files that SCAN and its successors train on: {train,dev,test}_ims.npy, _caps.txt, _ids.txt.

An array (N, R, D) and a caption per line for each split; no boxes. Which image a row shows is said
by the ids file, and without one by the order: SCAN takes caption j to describe image j // 5, or row
j where both counts are equal because the array repeats each image for each of its captions. Order
alone is not trusted: the captions must be those of the corpus.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.arrays.npy import mapped_npy
from pipeline.corpus.tables import SPLITS, in_split
from pipeline.regions.file import ImageRegions
from pipeline.regions.imports.ids import ImageMatcher
from pipeline.regions.imports.source import ImportCorpus, check_sizes, checked_regions, runs
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import sha256_file
from pipeline.runtime.text import read_text

FILES = {"train": ("train",), "val": ("dev", "val"), "test": ("testall", "test")}
NOT_WORDS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Place:
    path: Path  # of the array
    values: np.ndarray  # (N, R, D)
    rows: range  # consecutive; more than one where the array repeats the image

    @property
    def name(self) -> str:
        return f"{self.path}, row {self.rows.start:,}"


class ScanRegions:
    """Regions in a folder of SCAN's files; a row of zeros at the end of an image's is padding."""

    has_boxes = False

    def __init__(self, folder: Path, corpus: ImportCorpus) -> None:
        self.corpus = corpus
        places: dict[str, Place] = {}
        digest = hashlib.sha256()
        for split in (name for name in SPLITS if (corpus.images["split"] == name).any()):
            prefix = _prefix(folder, split)
            path = prefix.with_name(f"{prefix.name}_ims.npy")
            values = mapped_npy(path, 3)
            images = in_split(corpus.images, split)["image_id"].tolist()
            rows = _rows_of(prefix, len(values), images, corpus, split)
            places |= {name: Place(path, values, rows[name]) for name in images}
            shown = [f"{name}\0{rows[name].start}\n" for name in images]
            digest.update((sha256_file(path) + "".join(shown)).encode())
        self.places = [places[name] for name in corpus.images["image_id"]]
        self.digest = digest.hexdigest()
        self.order = np.arange(len(self.places))
        longest = max(self.places, key=lambda place: place.values.shape[1])
        self.most, self.width = longest.values.shape[1:]
        self.most_name = str(longest.path)
        check_sizes(self.most_name, self.most, self.width)
        for place in self.places:
            if (width := place.values.shape[2]) != self.width:
                others = f"{longest.path} has {self.width:,}"
                raise WorkbenchError(f"{place.path}: features of width {width:,}; {others}")

    def read(self, row: int) -> ImageRegions:
        """Regions of one image, boxes zero; WorkbenchError naming array and row."""
        place = self.places[row]
        features = np.array(place.values[place.rows.start], np.float32)
        used = np.flatnonzero(features.any(axis=1))
        features = features[: used[-1] + 1 if used.size else 0]
        no_boxes = np.zeros((len(features), 4), np.float32)
        regions = checked_regions(place.name, self.corpus.size(row), no_boxes, features)
        for other in place.rows[1:]:
            if not np.array_equal(place.values[other], place.values[place.rows.start]):
                raise WorkbenchError(
                    f"{place.path}: rows {place.rows.start:,} and {other:,} differ, but should "
                    f"both show {self.corpus.images['image_id'].iat[row]}"
                )
        return regions


def _prefix(folder: Path, split: str) -> Path:
    for name in FILES[split]:
        if (folder / f"{name}_ims.npy").is_file():
            return folder / name
    wanted = listing(f"{name}_ims.npy" for name in FILES[split])
    raise WorkbenchError(
        f"regions.path = {str(folder)!r}: no {wanted} for split {split} of the corpus",
        "set regions.path to the folder with SCAN's files",
    )


def _rows_of(
    prefix: Path, count: int, images: Sequence[str], corpus: ImportCorpus, split: str
) -> dict[str, range]:
    """Rows of the array for each image of a split, from the ids or else from the captions."""
    captions = _lines(prefix.with_name(f"{prefix.name}_caps.txt"))
    ids = _lines(prefix.with_name(f"{prefix.name}_ids.txt"))
    if ids is not None:
        return _by_ids(prefix, count, ids, ImageMatcher(images, corpus.skip_others), captions)
    if captions is None:
        raise WorkbenchError(f"{prefix}_ids.txt, {prefix}_caps.txt: neither is there")
    if corpus.captions is None:
        raise WorkbenchError(
            f"{prefix}_ids.txt: no such file; without ids the captions must be compared",
            "add the option --captions with the corpus's captions",
        )
    return _by_order(prefix, count, captions, images, in_split(corpus.captions, split))


def _by_ids(
    prefix: Path, count: int, ids: list[str], matcher: ImageMatcher, captions: list[str] | None
) -> dict[str, range]:
    where = f"{prefix}_ids.txt"
    if len(ids) != count:
        per_caption = captions is not None and len(ids) == len(captions)
        repeats = len(ids) // count
        if not per_caption or any(ids[i] != ids[i - i % repeats] for i in range(len(ids))):
            raise WorkbenchError(f"{where}: {len(ids):,} ids for {count:,} rows of the array")
        ids = ids[::repeats]
    ranges = runs([line.strip() for line in ids], where)
    names = list(ranges)
    places = matcher.match(names, where)
    rows = (ranges[names[index]] for index in places)
    return dict(zip(matcher.image_ids, rows, strict=True))


def _by_order(
    prefix: Path, count: int, lines: list[str], images: Sequence[str], captions: pd.DataFrame
) -> dict[str, range]:
    """Image i is shown by the i-th row or group of rows, if its captions are the i-th captions."""
    repeats, per_image = count // len(images), len(lines) // len(images)
    fits = count == repeats * len(images) and len(lines) == per_image * len(images)
    if not fits or (repeats > 1 and len(lines) != count):
        raise WorkbenchError(
            f"{prefix}_ims.npy: {count:,} rows and {len(lines):,} captions; the corpus has "
            f"{len(images):,} images in this split",
            f"only a file {prefix.name}_ids.txt can say which images these are",
        )
    texts = captions.groupby("image_id", sort=False)
    raw = {name: [_plain(text) for text in group["text"]] for name, group in texts}
    tokens = {name: [_plain(" ".join(t)) for t in group["tokens"]] for name, group in texts}
    for number, line in enumerate(lines):
        name, index = images[number // per_image], number % per_image
        choices = {*raw.get(name, [])[index : index + 1], *tokens.get(name, [])[index : index + 1]}
        if _plain(line) not in choices:
            raise WorkbenchError(
                f"{prefix}_caps.txt, line {number + 1:,}: not caption {index + 1} of {name} in the "
                f"corpus: {line[:80]!r}",
                f"the order differs; only a file {prefix.name}_ids.txt can tell the images",
            )
    return {name: range(i * repeats, (i + 1) * repeats) for i, name in enumerate(images)}


def _plain(text: str) -> str:
    """A caption without what tokenisers change: case, blanks and punctuation."""
    return NOT_WORDS.sub("", text.lower())


def _lines(path: Path) -> list[str] | None:
    # Not splitlines: captions hold characters that it takes for line ends.
    return read_text(path).rstrip("\r\n").split("\n") if path.is_file() else None
