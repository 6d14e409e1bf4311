"""The folders that VSE++, SCAN and their successors train on: {train,dev,test}_ims.npy, _caps.txt,
_ids.txt.

An array and a caption per line for each split. Which image a row shows is said by the ids file, and
without one by the order: caption j describes image j // 5, or row j where both counts are equal
because the array repeats each image for each of its captions. Order alone is not trusted: the
captions must be those of the corpus, or those of Karpathy's file that lies nearby. Images without
files, which the reader `precomp` named by such a folder, are found by these names (precomp_splits).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.corpus.tables import SPLITS, in_split
from pipeline.features.arrays.npy import mapped_npy
from pipeline.features.matching.annotations import (
    annotated_images,
    annotation_files,
    folders_near,
)
from pipeline.features.matching.images import ImageMatcher
from pipeline.features.matching.precomp_splits import (
    ARRAYS,
    CAPTIONS,
    FILES,
    IDS,
    PrecompSplit,
    beside,
    file_lines,
    read_split,
    whole_splits,
)
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import say

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
        named = self._places_by_names(dims)
        if named is not None:
            return named
        found: dict[str, Place] = {}
        for split in (name for name in SPLITS if (self.images["split"] == name).any()):
            prefix = self._prefix(split)
            path = beside(prefix, ARRAYS)
            values = mapped_npy(path, dims, f"{OTHER_DIMS[dims]}: {self.path}")
            rows = _SplitFiles(self, split, prefix, len(values)).rows()
            found |= {name: Place(path, values, at) for name, at in rows.items()}
            most = max(map(len, rows.values()))
            if most > 1:
                say(f"{path}: each image stands there up to {most} times in a row, taken once")
        return [found[name] for name in self.images["image_id"]]

    def _places_by_names(self, dims: int) -> list[Place] | None:
        """The places of images without files, which have the names that this folder, or one of the
        same images, gave them; None where they have others."""
        if "path" not in self.images or (self.images["path"] != "").any():
            return None
        found: dict[str, tuple[PrecompSplit, int]] = {}
        for split, prefix in whole_splits(self.path).items():
            own = read_split(prefix, split)
            found |= {name: (own, number) for number, name in enumerate(own.images)}
        names = self.images["image_id"].tolist()
        if not found.keys() >= set(names):
            return None
        if not all(own.are_named for own, _ in found.values()):
            self._check_captions(found)
        prefixes = dict.fromkeys(found[name][0].prefix for name in names)
        paths = {prefix: beside(prefix, ARRAYS) for prefix in prefixes}
        hint = f"{OTHER_DIMS[dims]}: {self.path}"
        values = {prefix: mapped_npy(path, dims, hint) for prefix, path in paths.items()}
        return [
            Place(paths[own.prefix], values[own.prefix], own.rows[number])
            for own, number in map(found.__getitem__, names)
        ]

    def _check_captions(self, found: dict[str, tuple[PrecompSplit, int]]) -> None:
        """Raise WorkbenchError where a caption of the corpus is not the line of its number here:
        images that are numbered are told by their captions alone."""
        if self.captions is None:
            return
        columns = self.captions[["caption_id", "image_id", "text"]].itertuples(index=False)
        for caption_id, image_id, text in columns:
            if image_id not in found:
                continue
            own, number = found[image_id]
            place = caption_id.rpartition("#")[2]
            lines = own.captions[number]
            line = lines[int(place)] if place.isdigit() and int(place) < len(lines) else ""
            if not own.are_named and _plain(line) != _plain(text):
                raise WorkbenchError(
                    f"{beside(own.prefix, CAPTIONS)}: caption {caption_id} is {line[:80]!r} here, "
                    f"and {text[:80]!r} in the corpus",
                    f"name the folder that raw is, or write {own.prefix.name}{IDS} in both: the id "
                    "of the image of each row, one a line",
                )

    def _prefix(self, split: str) -> Path:
        for name in FILES[split]:
            if beside(self.path / name, ARRAYS).is_file():
                return self.path / name
        wanted = listing(f"{name}_ims.npy" for name in FILES[split])
        raise WorkbenchError(
            f"{self.path}: no {wanted} for split {split} of the corpus",
            f"name the folder that holds {wanted}",
        )


class _SplitFiles:
    """The files of one split beside its array of `count` rows, and the images that they are read
    for."""

    def __init__(self, folder: PrecompFolder, split: str, prefix: Path, count: int) -> None:
        self.folder = folder
        self.split = split
        self.prefix = prefix
        self.count = count
        self.images: list[str] = in_split(folder.images, split)["image_id"].tolist()
        self.matcher = ImageMatcher(self.images, folders_near(folder.path))
        captions = file_lines(beside(prefix, CAPTIONS))
        self.lines = captions or []  # of the captions; none where the file is missing

    def rows(self) -> dict[str, range]:
        """Rows of the array for each image, from the ids or else from the captions."""
        ids = file_lines(beside(self.prefix, IDS))
        if ids is not None:
            return self._by_ids(self._ids_of_rows(ids))
        if not self.lines:
            raise WorkbenchError(f"{self.prefix}_ids.txt, {self.prefix}_caps.txt: neither is there")
        problem = self._problem_of_corpus()
        if problem is None:
            return self._rows_in_order(self.images, self._caption_forms())
        return self._by_annotations(problem)

    def _by_ids(self, ids: Sequence[str]) -> dict[str, range]:
        """From the ids; where no id is one of the corpus, from the captions, if they are in its
        order."""
        where = f"{self.prefix}_ids.txt"
        ranges = runs(ids, where)
        are_unknown = self.lines and not self.matcher.has_any(list(ranges))
        if are_unknown and self._problem_of_corpus() is None:
            say(f"{where}: unknown ids; the captions are those of the corpus, in its order")
            return self._rows_in_order(self.images, self._caption_forms())
        return self._matched(ranges, where)

    def _by_annotations(self, problem: str) -> dict[str, range]:
        """From Karpathy's file nearby whose captions of the split are those of the folder; problem:
        why the corpus's are not."""
        problems = [problem]
        for file in annotation_files(folders_near(self.folder.path)):
            every = annotated_images(file) or []
            for parts in (PARTS[self.split], PARTS[self.split][:1]):
                part = [image for image in every if image.split in parts]
                names = [image.name for image in part]
                captions = [image.captions for image in part]
                fault = self._problem_of_order(names, captions)
                if fault is None:
                    say(f"{self.prefix}{ARRAYS}: its images are those of {file}, in its order")
                    return self._matched(self._rows_in_order(names, captions), str(file))
                problems.append(f"{file}: {fault}")
        looked = "\n  ".join(dict.fromkeys(problems))
        raise WorkbenchError(
            f"{self.prefix}{ARRAYS}: nothing says which images these are: no "
            f"{self.prefix.name}_ids.txt, and {looked}",
            f"copy Karpathy's dataset_*.json of these images into {self.folder.path}, or write "
            f"{self.prefix.name}_ids.txt there: the image_id of each row, one a line",
        )

    def _problem_of_corpus(self) -> str | None:
        """Why the lines are not the captions of the corpus, in its order; None where they are."""
        if self.folder.captions is None:
            return "no dataset_*.json near it"
        fault = self._problem_of_order(self.images, self._caption_forms())
        return None if fault is None else f"of the corpus: {fault}"

    def _caption_forms(self) -> Captions:
        """The corpus's captions of each image, as written and as tokens."""
        captions = self.folder.captions
        if captions is None:
            return []
        forms: dict[str, list[list[str]]] = {name: [] for name in self.images}
        captions = in_split(captions, self.split)
        texts = zip(captions["text"], captions["tokens"], strict=True)
        for name, (text, tokens) in zip(captions["image_id"], texts, strict=True):
            if name in forms:
                forms[name].append([text, " ".join(tokens)])
        return list(forms.values())

    def _problem_of_order(self, names: Sequence[str], captions: Captions) -> str | None:
        """Why image i of these names, with these captions, is not shown by the i-th row or group of
        rows; None where the captions are those of the lines."""
        counts = self._captions_of_each(captions)
        if sum(counts) != len(self.lines) or self.count not in (len(names), len(self.lines)):
            return (
                f"{self.prefix}{ARRAYS}: {self.count:,} rows and {len(self.lines):,} captions, "
                f"but {len(names):,} images of this split"
            )
        number = 0
        for name, own, count in zip(names, captions, counts, strict=True):
            for index in range(count):
                line = self.lines[number]
                number += 1
                if index >= len(own) or _plain(line) not in map(_plain, own[index]):
                    return (
                        f"{self.prefix}_caps.txt, line {number:,}: not caption {index + 1} of "
                        f"{name}: {line[:80]!r}"
                    )
        return None

    def _rows_in_order(self, names: Sequence[str], captions: Captions) -> dict[str, range]:
        """The rows of each image where there is no problem of the order: one for each image, or one
        for each of its captions."""
        is_repeated = self.count > len(names)
        counts = self._captions_of_each(captions) if is_repeated else [1] * len(names)
        ends = np.cumsum(counts).tolist()
        return {
            name: range(end - count, end)
            for name, count, end in zip(names, counts, ends, strict=True)
        }

    def _captions_of_each(self, captions: Captions) -> list[int]:
        """How many lines each image has: all of its captions, or equally many of each."""
        counts = [len(own) for own in captions]
        if sum(counts) == len(self.lines):
            return counts
        return [len(self.lines) // max(len(captions), 1)] * len(captions)

    def _ids_of_rows(self, ids: list[str]) -> list[str]:
        """An id for each of the rows, where the file has one for each of the captions."""
        if len(ids) != self.count:
            repeats = len(ids) // self.count
            is_per_caption = self.lines and len(ids) == len(self.lines)
            if not is_per_caption or any(
                ids[row] != ids[row - row % repeats] for row in range(len(ids))
            ):
                raise WorkbenchError(
                    f"{self.prefix}_ids.txt: {len(ids):,} ids for {self.count:,} rows of the array"
                )
            ids = ids[::repeats]
        return [line.strip() for line in ids]

    def _matched(self, ranges: dict[str, range], where: str) -> dict[str, range]:
        """Rows by image of the corpus from rows by the ids of other tools."""
        names = list(ranges)
        setting = self.folder.setting
        places = self.matcher.match(names, where, self.folder.skip, setting)
        return dict(zip(self.images, (ranges[names[place]] for place in places), strict=True))


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


def _plain(text: str) -> str:
    """A caption without what tokenisers change: case, blanks and punctuation."""
    return NOT_WORDS.sub("", text.lower())
