"""The folders that VSE++, SCAN and their successors train on: {train,dev,test}_ims.npy, _caps.txt,
_ids.txt.

An array and a caption per line for each split. Which image a row shows is said by the ids file, and
without one by the order: caption j describes image j // 5, or row j where both counts are equal
because the array repeats each image for each of its captions. Order alone is not trusted: the
captions must be those of the corpus, or those of Karpathy's file that lies nearby.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.arrays.npy import mapped_npy
from pipeline.corpus.tables import SPLITS, in_split
from pipeline.matching.annotations import (
    annotated_images,
    annotation_files,
    folders_near,
)
from pipeline.matching.images import ImageMatcher
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import say
from pipeline.runtime.text import read_text

ARRAYS = "_ims.npy"
FILES = {"train": ("train",), "val": ("dev", "val"), "test": ("testall", "test")}
PARTS = {"train": ("train", "restval"), "val": ("val",), "test": ("test",)}  # of Karpathy's file
NOT_WORDS = re.compile(r"[\W_]+")
OTHER_DIMS = {
    2: "regions, (N, R, D), are read with regions.source: scan_npy and regions.path",
    3: "vectors of images, (N, D), are read with image_features.source: file and "
    "image_features.file.path",
}

Captions = Sequence[Sequence[Sequence[str]]]  # of each image, of each caption its forms


@dataclass(frozen=True)
class Place:
    """Where an image is in the arrays."""

    path: Path
    values: np.ndarray  # (N, ...) of the array
    rows: range  # several where the array repeats the image

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.path}, row {self.rows.start:,}"


@dataclass(frozen=True)
class PrecompFolder:
    """A folder and the corpus that it is read for."""

    path: Path
    images: pd.DataFrame
    captions: pd.DataFrame | None  # None where they are not known
    skip: bool  # leave out images of the folder that the corpus does not have
    setting: str  # the key of params.yaml that does so, for messages

    def places(self, dims: int) -> list[Place]:
        """The place of every image of the corpus, in its order; dims: of the arrays."""
        found: dict[str, Place] = {}
        for split in (name for name in SPLITS if (self.images["split"] == name).any()):
            prefix = self._prefix(split)
            path = _array_path(prefix)
            values = mapped_npy(path, dims, f"{OTHER_DIMS[dims]}: {self.path}")
            rows = self._rows(prefix, len(values), split)
            found |= {name: Place(path, values, at) for name, at in rows.items()}
            most = max(map(len, rows.values()))
            if most > 1:
                say(f"{path}: each image stands there up to {most} times in a row, taken once")
        return [found[name] for name in self.images["image_id"]]

    def _prefix(self, split: str) -> Path:
        for name in FILES[split]:
            if _array_path(self.path / name).is_file():
                return self.path / name
        wanted = listing(f"{name}_ims.npy" for name in FILES[split])
        raise WorkbenchError(
            f"{self.path}: no {wanted} for split {split} of the corpus",
            f"name the folder that holds {wanted}",
        )

    def _rows(self, prefix: Path, count: int, split: str) -> dict[str, range]:
        """Rows of the array for each image of a split, from the ids or else from the captions."""
        lines = _lines(prefix.with_name(f"{prefix.name}_caps.txt"))
        ids = _lines(prefix.with_name(f"{prefix.name}_ids.txt"))
        if ids is not None:
            return self._by_ids(prefix, _ids_of_rows(prefix, count, ids, lines), lines, split)
        if lines is None:
            raise WorkbenchError(f"{prefix}_ids.txt, {prefix}_caps.txt: neither is there")
        order = Order(prefix, count, lines)
        return self._by_captions(order, split) or self._by_annotations(order, split)

    def _by_ids(
        self, prefix: Path, ids: Sequence[str], lines: list[str] | None, split: str
    ) -> dict[str, range]:
        """From the ids; where no id is one of the corpus, from the captions, if they are in its
        order."""
        images = in_split(self.images, split)["image_id"].tolist()
        where = f"{prefix}_ids.txt"
        ranges = runs(ids, where)
        names = list(ranges)
        matcher = ImageMatcher(images, folders_near(self.path))
        if lines and not matcher.has_any(names):
            order = Order(prefix, len(ids), lines)
            rows = self._by_captions(order, split)
            if rows is not None:
                say(f"{where}: unknown ids; the captions are those of the corpus, in its order")
                return rows
        places = matcher.match(names, where, self.skip, self.setting)
        return dict(zip(images, (ranges[names[index]] for index in places), strict=True))

    def _by_captions(self, order: "Order", split: str) -> dict[str, range] | None:
        """Where the captions are those of the corpus, in its order; None where they are not."""
        if self.captions is None:
            return None
        images = in_split(self.images, split)["image_id"].tolist()
        forms = _forms_of(images, in_split(self.captions, split))
        return order.rows(images, forms) if order.problem(images, forms) is None else None

    def _by_annotations(self, order: "Order", split: str) -> dict[str, range]:
        """From Karpathy's file nearby whose captions of the split are those of the folder."""
        images = in_split(self.images, split)["image_id"].tolist()
        problems = ["no dataset_*.json near it"]
        if self.captions is not None:
            forms = _forms_of(images, in_split(self.captions, split))
            other = order.problem(images, forms)
            problems = [f"of the corpus: {other.message}"] if other is not None else []
        for file in annotation_files(folders_near(self.path)):
            every = annotated_images(file) or []
            for parts in (PARTS[split], PARTS[split][:1]):
                part = [image for image in every if image.split in parts]
                names = [image.name for image in part]
                captions = [image.captions for image in part]
                other = order.problem(names, captions)
                if other is not None:
                    problems.append(f"{file}: {other.message}")
                    continue
                say(f"{order.prefix}{ARRAYS}: its images are those of {file}, in its order")
                rows = order.rows(names, captions)
                matcher = ImageMatcher(images, folders_near(self.path))
                places = matcher.match(names, str(file), self.skip, self.setting)
                return dict(zip(images, (rows[names[index]] for index in places), strict=True))
        looked = "\n  ".join(dict.fromkeys(problems))
        raise WorkbenchError(
            f"{order.prefix}{ARRAYS}: nothing says which images these are: no "
            f"{order.prefix.name}_ids.txt, and {looked}",
            f"copy Karpathy's dataset_*.json of these images into {self.path}, or write "
            f"{order.prefix.name}_ids.txt there: the image_id of each row, one a line",
        )


@dataclass(frozen=True)
class Order:
    """Rows and captions of an array without ids."""

    prefix: Path  # of its files: folder/train
    count: int  # rows of the array
    lines: list[str]  # of the captions

    def problem(self, images: Sequence[str], captions: Captions) -> WorkbenchError | None:
        """Why image i is not shown by the i-th row or group of rows.

        Args:
            images: names of N images in the order of a split.
            captions: of each image, in their order; each in the forms that it may have.

        Returns:
            The error to be raised; None where the captions are those of the lines.
        """
        counts = self._captions_of_each(captions)
        if sum(counts) != len(self.lines) or self.count not in (len(images), len(self.lines)):
            return WorkbenchError(
                f"{self.prefix}{ARRAYS}: {self.count:,} rows and {len(self.lines):,} captions, "
                f"but {len(images):,} images of this split"
            )
        number = 0
        for name, own, count in zip(images, captions, counts, strict=True):
            for index in range(count):
                line = self.lines[number]
                number += 1
                if index >= len(own) or _plain(line) not in map(_plain, own[index]):
                    return WorkbenchError(
                        f"{self.prefix}_caps.txt, line {number:,}: not caption {index + 1} of "
                        f"{name}: {line[:80]!r}"
                    )
        return None

    def rows(self, images: Sequence[str], captions: Captions) -> dict[str, range]:
        """The rows of each image, where there is no problem.

        Args:
            images: names of N images in the order of a split.
            captions: of each image, in their order; each in the forms that it may have.

        Returns:
            Consecutive rows by name, one for each image or one for each of its captions.
        """
        counts = self._captions_of_each(captions) if self.count > len(images) else [1] * len(images)
        ends = np.cumsum(counts).tolist()
        return {
            name: range(end - count, end)
            for name, count, end in zip(images, counts, ends, strict=True)
        }

    def _captions_of_each(self, captions: Captions) -> list[int]:
        """How many lines each image has: all of its captions, or equally many of each."""
        counts = [len(own) for own in captions]
        if sum(counts) == len(self.lines):
            return counts
        return [len(self.lines) // max(len(captions), 1)] * len(captions)


def runs(names: Sequence[str], where: str) -> dict[str, range]:
    """Where each name stands in a list in which equal names stand together.

    Args:
        names: N names.
        where: of the names, which the message begins with.

    Returns:
        Consecutive places by name.

    Raises:
        WorkbenchError: for a name that comes back later.
    """
    ranges: dict[str, range] = {}
    back = []
    for row, name in enumerate(names):
        if name not in ranges:
            ranges[name] = range(row, row + 1)
        elif ranges[name].stop == row:
            ranges[name] = range(ranges[name].start, row + 1)
        else:
            back.append(name)
    if back:
        raise WorkbenchError(f"{where}: ids more than once: {listing(dict.fromkeys(back))}")
    return ranges


def is_precomp(folder: Path) -> bool:
    """Whether a folder has arrays of this kind."""
    return any(folder.glob(f"*{ARRAYS}"))


def _array_path(prefix: Path) -> Path:
    return prefix.with_name(f"{prefix.name}{ARRAYS}")


def _ids_of_rows(prefix: Path, count: int, ids: list[str], lines: list[str] | None) -> list[str]:
    """An id for each of the rows, where the file has one for each of the captions."""
    if len(ids) != count:
        per_caption = lines is not None and len(ids) == len(lines)
        repeats = len(ids) // count
        if not per_caption or any(ids[i] != ids[i - i % repeats] for i in range(len(ids))):
            raise WorkbenchError(
                f"{prefix}_ids.txt: {len(ids):,} ids for {count:,} rows of the array"
            )
        ids = ids[::repeats]
    return [line.strip() for line in ids]


def _forms_of(images: Sequence[str], captions: pd.DataFrame) -> Captions:
    """Captions of each image as written and as tokens."""
    forms: dict[str, list[list[str]]] = {name: [] for name in images}
    texts = zip(captions["text"], captions["tokens"], strict=True)
    for name, (text, tokens) in zip(captions["image_id"], texts, strict=True):
        if name in forms:
            forms[name].append([text, " ".join(tokens)])
    return list(forms.values())


def _plain(text: str) -> str:
    """A caption without what tokenisers change: case, blanks and punctuation."""
    return NOT_WORDS.sub("", text.lower())


def _lines(path: Path) -> list[str] | None:
    # Not splitlines: captions hold characters that it takes for line ends.
    return read_text(path).rstrip("\r\n").split("\n") if path.is_file() else None
