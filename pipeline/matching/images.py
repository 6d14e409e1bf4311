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
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from pipeline.matching.annotations import LOOKED_FOR, annotation_files, mappings
from pipeline.matching.rows import matched
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import sha256_file
from pipeline.runtime.process import say

COCO = re.compile(r"(?:^|_)([0-9]{12})$")
DIGITS = re.compile(r"([0-9]{1,19})(?:\.[A-Za-z]\w*)?")  # of a number; longer ones are names
HINT = (
    "ids are matched with image_id, a path, a file's name with or without its ending, MS-COCO's "
    f"number, or a number that a {LOOKED_FOR} beside or above the file explains"
)

Rows = Callable[[str], Sequence[int]]


@dataclass(frozen=True)
class Reading:
    """What N ids mean by one rule. rows: rows of the corpus for each, one where it is clear."""

    rule: str  # what the ids are, for a message; empty: image_id itself
    rows: list[Sequence[int]]
    source: Path | None = None  # of annotations

    @property
    def found(self) -> int:
        """Number of images that have an id."""
        return len({rows[0] for rows in self.rows if len(rows) == 1})

    @property
    def rank(self) -> tuple[int, int]:
        """Larger for the better reading: images that are found, then ids that mean something."""
        return self.found, sum(map(bool, self.rows))


class ImageMatcher:
    """Images of a corpus by the ids of other tools; folders: where annotations are looked for."""

    def __init__(self, image_ids: Sequence[str], folders: Sequence[Path] = ()) -> None:
        self.image_ids = list(image_ids)
        self.folders = folders
        self.source: Path | None = None  # the annotations that explained the last ids
        self._rules = _Names(self.image_ids).rules

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
        best = self._best(names)
        self.source = best.source
        if best.rule and best.found:
            total = len(self.image_ids)
            say(f"{where}: ids are {best.rule}; {best.found:,} of {total:,} images found")
        return [self._named(*pair) for pair in zip(names, best.rows, strict=True)]

    def finds(self, names: Sequence[str]) -> bool:
        """Whether any of the ids is an image's."""
        return self._best(names).found > 0

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
        rows = matched(where, described, self.image_ids, skip, self.hint(names, setting))
        inside = np.flatnonzero(rows >= 0)
        places = np.empty(len(self.image_ids), np.int64)
        places[rows[inside]] = inside
        return places

    def hint(self, names: Sequence[str], setting: str) -> str:
        """How ids are matched, and the way out. setting: key that leaves out other images."""
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

    def _best(self, names: Sequence[str]) -> Reading:
        """The reading that finds most images. Annotations are read where names do not find all, and
        where ids are numbers, which may be parts of names or numbers of the annotations."""
        wanted = min(len(self.image_ids), len(set(names)))
        best = Reading("", [()] * len(names))
        for reading in self._readings(names):
            if reading.rank > best.rank:
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
        if best.found and not _same(explained, best):
            raise _ambiguous(best, explained)
        return best

    def _readings(self, names: Sequence[str]) -> Iterator[Reading]:
        for rule, rows in self._rules.items():
            yield Reading(rule, [rows(name) for name in names])

    def _explained(self, names: Sequence[str]) -> Reading | None:
        """The best reading through a file of annotations; None where there is none."""
        best: Reading | None = None
        for path in annotation_files(self.folders):
            for mapping in mappings(path):
                files = [mapping.names.get(_number(name) or name, "") for name in names]
                reading = max(self._readings(files), key=lambda one: one.found)
                reading = Reading(f"{mapping.key} of {path}", reading.rows, path)
                if best is None or reading.found > best.found:
                    best = reading
                elif reading.found == best.found and reading.found and not _same(reading, best):
                    raise _ambiguous(best, reading)
        return best

    def _named(self, name: str, rows: Sequence[int]) -> str:
        if len(rows) == 1:
            return self.image_ids[rows[0]]
        images = listing((self.image_ids[row] for row in rows), 3)
        return f"{name} (one of {images})" if rows else name


def _ambiguous(first: Reading, second: Reading) -> WorkbenchError:
    return WorkbenchError(
        f"ids may be {first.rule} or {second.rule}, which name different images",
        "move the file that does not belong away, or write image_ids in the place of the ids",
    )


def _same(first: Reading, second: Reading) -> bool:
    return [list(rows) for rows in first.rows] == [list(rows) for rows in second.rows]


class _Names:
    """The names of a corpus's images under each rule; each index is made when it is asked for."""

    def __init__(self, image_ids: Sequence[str]) -> None:
        self.image_ids = image_ids
        self.rules: dict[str, Rows] = {
            "": lambda name: self.exact.get(name, ()),
            "paths": self.by_path,
            "file names": lambda name: self.bases.get(_base(name), ()),
            "file names without their endings": lambda name: self.stems.get(_base(name), ()),
            "file names of another ending": lambda name: self.stems.get(_stem(name), ()),
            "MS-COCO's numbers": lambda name: self.numbers.get(_number(name) or "", ()),
        }

    def by_path(self, name: str) -> Sequence[int]:
        plain = name.replace("\\", "/")
        if plain in self.ends:
            return self.ends[plain]
        return next((self.exact[end] for end in _ends(plain) if end in self.exact), ())

    @cached_property
    def exact(self) -> Mapping[str, Sequence[int]]:
        return self._index(lambda name: [name])

    @cached_property
    def ends(self) -> Mapping[str, Sequence[int]]:
        return self._index(_ends)

    @cached_property
    def bases(self) -> Mapping[str, Sequence[int]]:
        return self._index(lambda name: [_base(name)])

    @cached_property
    def stems(self) -> Mapping[str, Sequence[int]]:
        return self._index(lambda name: [_stem(name)])

    @cached_property
    def numbers(self) -> Mapping[str, Sequence[int]]:
        return self._index(lambda name: filter(None, [_coco_number(name)]))

    def _index(self, keys: Callable[[str], Iterable[str]]) -> Mapping[str, Sequence[int]]:
        rows: dict[str, list[int]] = defaultdict(list)
        for row, name in enumerate(self.image_ids):
            for key in keys(name):
                rows[key].append(row)
        return dict(rows)


def _ends(path: str) -> Iterator[str]:
    """A path, and what is left of it when its first folders are taken away."""
    yield path
    while "/" in path:
        path = path.partition("/")[2]
        yield path


def _base(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2]


def _stem(name: str) -> str:
    return PurePosixPath(_base(name)).stem


def _number(name: str) -> str | None:
    """The whole number that a file's name is, without leading zeros, or that ends MS-COCO's names;
    None for others."""
    found = DIGITS.fullmatch(_base(name))
    return str(int(found[1])) if found else _coco_number(name)


def _coco_number(name: str) -> str | None:
    found = COCO.search(_stem(name))
    return str(int(found[1])) if found else None
