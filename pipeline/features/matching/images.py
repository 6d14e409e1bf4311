"""Which image of the corpus an id of another tool means.

Files carry numbers that a dataset gave its images, paths of another machine or parts of a name; a
corpus has the names of its files. One rule is taken for all ids of a file, the first of those that
find most images:

1. the image_id itself (images/1.jpg);
2. a path that ends in it, or that it ends in (/data/images/1.jpg, 1.jpg);
3. the file's name, whatever the folders;
4. the file's name without its ending (1000092795 is 1000092795.jpg);
5. both names without their endings (1.png is 1.jpg);
6. the integer that ends MS-COCO's names (391895 is val2014/COCO_val2014_000000391895.jpg);
7. a number that a file of annotations explains: Karpathy's imgid or cocoid, or id_mapping.json.

An id that may mean several images means none.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from pipeline.features.matching.annotations import LOOKED_FOR, annotation_files, mappings
from pipeline.features.matching.rows import corpus_rows
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import sha256_file
from pipeline.runtime.process import say

COCO = re.compile(r"(?:^|_)([0-9]{12})$")
DIGITS = re.compile(r"([0-9]{1,19})(?:\.[A-Za-z]\w*)?")  # of a number; longer ones are names
HINT = (
    "ids are matched with image_id, a path, a file's name with or without its ending, MS-COCO's "
    f"number, or a number that a {LOOKED_FOR} beside or above the file explains"
)


# What ids are compared by: keys of an image_id, keys of an id of a file.


def _ends(path: str) -> Iterator[str]:
    """A path, and what is left of it when its first folders are taken away."""
    yield path
    while "/" in path:
        path = path.partition("/")[2]
        yield path


def _plain(name: str) -> str:
    return name.replace("\\", "/")


def _base(name: str) -> str:
    return _plain(name).rpartition("/")[2]


def _stem(name: str) -> str:
    return PurePosixPath(_base(name)).stem


def _coco_number(name: str) -> Iterator[str]:
    """The whole number that ends MS-COCO's names, without leading zeros; nothing for others."""
    found = COCO.search(_stem(name))
    if found:
        yield str(int(found[1]))


def _number(name: str) -> Iterator[str]:
    """The whole number that a file's name is, or that ends MS-COCO's names; nothing for others."""
    found = DIGITS.fullmatch(_base(name))
    if found:
        yield str(int(found[1]))
    else:
        yield from _coco_number(name)


def _whole_and_ends(name: str) -> list[str]:
    return [f"whole {name}", *(f"end {end}" for end in _ends(name))]


def _end_or_longer(name: str) -> list[str]:
    """An image_id's end, or else the first of its own ends that is a whole image_id."""
    plain = _plain(name)
    return [f"end {plain}", *(f"whole {end}" for end in _ends(plain))]


Keys = Callable[[str], Iterable[str]]

# By what messages call the ids: keys of an image_id, and of an id, of which the first that is an
# image's decides.
RULES: dict[str, tuple[Keys, Keys]] = {
    "": (lambda image: [image], lambda name: [name]),
    "paths": (_whole_and_ends, _end_or_longer),
    "file names": (lambda image: [_base(image)], lambda name: [_base(name)]),
    "file names without their endings": (
        lambda image: [_stem(image)],
        lambda name: [_base(name)],
    ),
    "file names of another ending": (lambda image: [_stem(image)], lambda name: [_stem(name)]),
    "MS-COCO's numbers": (_coco_number, _number),
}


@dataclass(frozen=True)
class Reading:
    """What N ids mean by one rule."""

    rule: str  # what the ids are, for a message; empty: image_id itself
    rows: list[Sequence[int]]  # of the corpus, for each id; one where it is clear
    source: Path | None = None  # of annotations

    @property
    def found(self) -> int:
        """Number of images that have an id."""
        return len({rows[0] for rows in self.rows if len(rows) == 1})

    @property
    def merit(self) -> tuple[int, int]:
        """Larger for the better reading: images that are found, then ids that mean something."""
        return self.found, sum(map(bool, self.rows))


class ImageMatcher:
    """Images of a corpus by the ids of other tools.

    Args:
        image_ids: M image_ids of the corpus.
        folders: where annotations are looked for.
    """

    def __init__(self, image_ids: Sequence[str], folders: Sequence[Path] = ()) -> None:
        self.image_ids = list(image_ids)
        self.folders = folders
        self.source: Path | None = None  # the annotations that explained the last ids
        self._indexes: dict[str, Mapping[str, Sequence[int]]] = {}  # by rule

    def named(self, names: Sequence[str], where: str) -> list[str]:
        """The image_id that each id means.

        Args:
            names: N ids, in any order, also repeated.
            where: of the ids, which lines and messages begin with.

        Returns:
            N image_ids; an id of no image as it is, of several with what it may mean.

        Raises:
            WorkbenchError: where two files of annotations explain the ids in different ways.
        """
        self.source = None
        if list(names) == self.image_ids or set(self.image_ids).issuperset(names):
            return list(names)
        best = self._best_reading(names)
        self.source = best.source
        if best.rule and best.found:
            total = len(self.image_ids)
            say(f"{where}: ids are {best.rule}; {best.found:,} of {total:,} images found")
        return [self._described(name, rows) for name, rows in zip(names, best.rows, strict=True)]

    def meant(self, names: Sequence[str]) -> list[str | None]:
        """The image_id that each of N ids means, without a line about it; None for no image or
        several."""
        rows_of_names = self._best_reading(names).rows
        return [self.image_ids[rows[0]] if len(rows) == 1 else None for rows in rows_of_names]

    def has_any(self, names: Sequence[str]) -> bool:
        """Whether any of the ids is an image's."""
        return self._best_reading(names).found > 0

    def match(
        self, names: Sequence[str], where: str, skip: bool, setting: str
    ) -> npt.NDArray[np.int64]:
        """The place of every image in a list of ids.

        Args:
            names: N ids, of each image of the corpus one.
            where: of the ids, which messages begin with.
            skip: leave out ids of other images.
            setting: the key of params.yaml that does so, for the message.

        Returns:
            (M,) the place in `names` of each image of the corpus.

        Raises:
            WorkbenchError: for ids that occur twice or match no image or several, and for images
                without an id.
        """
        described = self.named(names, where)
        rows = corpus_rows(where, described, self.image_ids, skip, self.hint(names, setting))
        inside = np.flatnonzero(rows >= 0)
        places = np.empty(len(self.image_ids), np.int64)
        places[rows[inside]] = inside
        return places

    def hint(self, names: Sequence[str], setting: str) -> str:
        """How ids are matched, and the way out, for an error.

        Args:
            names: N ids.
            setting: the key of params.yaml that leaves out other images.

        Returns:
            The hint; of small numbers it names Karpathy's file.
        """
        skipping = f"{setting} = skip leaves out images that are not in the corpus"
        if not self.folders or not all(name.isdigit() and len(name) < 7 for name in names):
            return f"{HINT}; {skipping}"
        return (
            f"{HINT}; if they are Karpathy's imgid, copy his dataset_*.json into "
            f"{self.folders[0]}; {skipping}"
        )

    @property
    def source_digest(self) -> str | None:
        """SHA-256 of the annotations that explained the last ids, None where none were needed."""
        return None if self.source is None else sha256_file(self.source)

    def _best_reading(self, names: Sequence[str]) -> Reading:
        """The reading that finds most images. Annotations are read where names do not find all, and
        where ids are numbers, which may be parts of names or numbers of the annotations."""
        wanted = min(len(self.image_ids), len(set(names)))
        best = Reading("", [()] * len(names))
        for reading in self._readings(names):
            if reading.merit > best.merit:
                best = reading
            if best.found == wanted:
                break
        if best.found == wanted and not all(map(str.isdigit, names)):
            return best
        explained = self._explained(names)
        if explained is None or explained.found < best.found:
            return best
        if explained.found > best.found:
            return explained
        if best.found and not _is_same(explained, best):
            raise _ambiguous(best, explained)
        return best

    def _readings(self, names: Sequence[str]) -> Iterator[Reading]:
        for rule, (keys_of_image, keys_of_id) in RULES.items():
            if rule not in self._indexes:
                self._indexes[rule] = _index(self.image_ids, keys_of_image)
            index = self._indexes[rule]
            rows = [
                next((index[key] for key in keys_of_id(name) if key in index), ()) for name in names
            ]
            yield Reading(rule, rows)

    def _explained(self, names: Sequence[str]) -> Reading | None:
        """The best reading through a file of annotations; None where there is none."""
        best: Reading | None = None
        numbers = [next(_number(name), name) for name in names]
        for path in annotation_files(self.folders):
            for mapping in mappings(path):
                files = [mapping.names.get(number, "") for number in numbers]
                reading = max(self._readings(files), key=lambda one: one.found)
                reading = Reading(f"{mapping.key} of {path}", reading.rows, path)
                if best is None or reading.found > best.found:
                    best = reading
                elif reading.found == best.found and reading.found and not _is_same(reading, best):
                    raise _ambiguous(best, reading)
        return best

    def _described(self, name: str, rows: Sequence[int]) -> str:
        if len(rows) == 1:
            return self.image_ids[rows[0]]
        images = listing((self.image_ids[row] for row in rows), 3)
        return f"{name} (one of {images})" if rows else name


def _index(image_ids: Sequence[str], keys: Keys) -> dict[str, list[int]]:
    """The rows of the image_ids that have a key, by the key."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(image_ids):
        for key in keys(name):
            rows[key].append(row)
    return dict(rows)


def _ambiguous(first: Reading, second: Reading) -> WorkbenchError:
    return WorkbenchError(
        f"ids may be {first.rule} or {second.rule}, which name different images",
        "move the file that does not belong away, or write image_ids in the place of the ids",
    )


def _is_same(first: Reading, second: Reading) -> bool:
    return [list(rows) for rows in first.rows] == [list(rows) for rows in second.rows]
