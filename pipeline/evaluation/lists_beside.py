"""Lists of ids that lie beside a matrix under names that are not read: `image_ids.txt` and
`captions.txt` beside `s.npy`, where `s.image_ids.txt` and `s.caption_ids.txt` would be read.

Without ids rows are taken in the order of the corpus. So a list of the corpus's own images or
captions in another order must not be passed over, be it lines, a column of a table, a field of
records in JSON, or an array.
"""

import csv
import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.corpus.tables import in_split
from pipeline.features.arrays.formats import open_arrays
from pipeline.features.arrays.ids import MAX_ID, text_ids, texts_in
from pipeline.features.matching.agreement import words_of
from pipeline.features.matching.images import ImageMatcher
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.section import VECTOR_FILES
from pipeline.runtime.text import read_json

LISTS = ("ids", "image_ids", "caption_ids")  # that are read beside a matrix
TEXTS = (".txt", ".csv", ".tsv", ".lst", ".list", ".token")
LINES = (".jsonl", ".ndjson")  # of JSON
SEPARATORS = ("\t", ",", ";", "|")


@dataclass(frozen=True, eq=False)
class Order:
    """What the rows without ids are taken for.

    Attributes:
        images: the corpus's table.
        captions: the corpus's table.
        needed: the split that must be there.
    """

    images: pd.DataFrame
    captions: pd.DataFrame
    needed: str

    def of_images(self, lines: Sequence[str]) -> bool:
        """Whether lines name all images of a split or the corpus, in another order."""
        names = ImageMatcher(list(self.images["image_id"])).meant(lines)
        if None in names:
            return False
        orders = []
        for images, captions in self._parts():
            plain = list(images["image_id"])
            times = len(lines) // max(1, len(plain))
            repeated = [name for name in plain for _ in range(times)]
            orders += [plain, repeated, list(captions["image_id"])]
        return _is_other_order(names, orders)

    def of_captions(self, lines: Sequence[str], column: str) -> bool:
        """Whether lines are those of all captions of a split or the corpus, in another order.

        Args:
            lines: of a list.
            column: of the table of captions, caption_id or text.

        Returns:
            Whether they are.
        """
        orders = [list(map(words_of, captions[column])) for _, captions in self._parts()]
        return _is_other_order(list(map(words_of, lines)), orders)

    def _parts(self) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        yield in_split(self.images, self.needed), in_split(self.captions, self.needed)
        yield self.images, self.captions


def refuse_lists_beside(
    path: Path,
    names: Sequence[str],
    images: Collection[int],
    captions: Collection[int],
    order: Order,
    read: Collection[Path] = (),
) -> None:
    """Refuse a matrix beside lists of ids that would be passed over.

    Args:
        path: of the matrix, some of whose rows or columns have no ids.
        names: of the lists that are read, which are not there.
        images: numbers of lines that a list of images may have; none where their ids are known.
        captions: likewise of captions.
        order: what the rows are taken for.
        read: the other matrix that is read with it, whose ids are its own.

    Raises:
        WorkbenchError: naming the lists, and the names that are read.
    """
    counts = {*images, *captions}
    if not counts:
        return
    found: dict[str, str] = {}
    for file in _files(path, names, counts):
        for lines in _lists(file) if file not in read else ():
            if file.name in found or len(lines) not in counts:
                continue
            if len(lines) in images and order.of_images(lines):
                found[file.name] = "images"
            elif len(lines) in captions and order.of_captions(lines, "caption_id"):
                found[file.name] = "captions"
            elif len(lines) in captions and order.of_captions(lines, "text"):
                found[file.name] = "captions' texts, not their ids"
    if found:
        allowed = " and ".join(f"{path.stem}.{name}.txt" for name in names)
        raise WorkbenchError(
            f"{path}: lists beside it that are not read, in another order than the corpus: "
            f"{listing(f'{name} ({kind})' for name, kind in found.items())}; read are {allowed}",
            "give the ids of its rows these names, and move other lists to another folder",
        )


def _files(path: Path, names: Sequence[str], counts: Collection[int]) -> list[Path]:
    """The files beside a matrix that may be lists of so many ids, without those that are read for
    it or for another matrix there."""
    files = sorted(path.parent.iterdir())
    stems = {file.stem for file in files if file.suffix in VECTOR_FILES} - {path.stem}
    read = {f"{path.stem}.{name}" for name in names}
    read |= {f"{stem}.{name}" for stem in stems for name in LISTS}
    least = 2 * min(counts) - 1  # bytes: a character and a line's end for each
    most = max(counts) * MAX_ID
    return [
        file
        for file in files
        if file.suffix in {*TEXTS, ".json", *LINES, *VECTOR_FILES}
        and file != path
        and file.stem not in read
        and file.is_file()
        and least <= file.stat().st_size <= most
    ]


def _lists(file: Path) -> Iterator[list[str]]:
    """The lists of texts or whole numbers that a file has; none of one that cannot be read, which
    nobody has asked for."""
    with suppress(WorkbenchError, ValueError, RecursionError, csv.Error):
        if file.suffix in TEXTS:
            yield from _columns(text_ids(file))
        elif file.suffix == ".json":
            yield from _lists_of_json(read_json(file))
        elif file.suffix in LINES:
            yield from _lists_of_json([json.loads(line) for line in text_ids(file) if line])
        else:
            arrays = open_arrays(file)
            for name in arrays.names:
                with suppress(WorkbenchError):  # an array of numbers
                    yield texts_in(arrays.array(name))


def _columns(lines: Sequence[str]) -> Iterator[list[str]]:
    """Lines and their columns, each also without its head; names such as `1.jpg#0` also without
    the number of the caption."""
    lists = [list(lines)]
    for sign in SEPARATORS:
        if sign not in lines[-1]:
            continue
        rows = [row for row in csv.reader(lines, delimiter=sign) if row]
        width = min(map(len, rows))
        lists += ([row[place].strip() for row in rows] for place in range(width))
        # the last column may have the sign inside its texts
        lists.append([sign.join(row[width - 1 :]).strip() for row in rows])
    for column in lists:
        yield column
        yield column[1:]
        if "#" in column[-1]:
            images = [cell.partition("#")[0] for cell in column]
            yield images
            yield images[1:]


def _lists_of_json(value: object) -> Iterator[list[str]]:
    """A list and the fields of its records; of a mapping its lists, its keys in the order of their
    numbers, and its values in that of keys that are numbers."""
    if isinstance(value, list):
        yield from _fields(value)
    elif isinstance(value, dict):
        if all(type(row) is int for row in value.values()):
            yield sorted(value, key=value.__getitem__)
        elif all(key.isdecimal() for key in value):
            yield from _fields([value[key] for key in sorted(value, key=int)])
        for own in value.values():
            yield from _fields(own if isinstance(own, list) else [])


def _fields(values: Sequence[object]) -> Iterator[list[str]]:
    """A list of texts or whole numbers, or such fields of a list of records."""
    records = [value for value in values if isinstance(value, dict)]
    if not records:
        columns: list[list[object]] = [list(values)]
    elif len(records) == len(values):
        columns = [[record.get(name) for record in records] for name in records[0]]
    else:
        return
    for column in columns:
        if all(type(value) in (str, int) for value in column):
            yield list(map(str, column))


def _is_other_order(found: Sequence[str | None], orders: Sequence[Sequence[str]]) -> bool:
    """Whether these are the values of one of the orders, and in none of them."""
    if any(list(found) == list(order) for order in orders):
        return False
    counts = Counter(found)
    return any(counts == Counter(order) for order in orders)
