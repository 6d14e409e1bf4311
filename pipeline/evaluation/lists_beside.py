"""Lists of ids that lie beside a matrix under names that are not read: `image_ids.txt` and
`captions.txt` beside `s.npy`, where `s.image_ids.txt` and `s.caption_ids.txt` would be read.

Without ids rows are taken in the order of the corpus. So a list of the corpus's own images or
captions in another order must not be passed over.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.corpus.tables import in_split
from pipeline.features.arrays.ids import ENDINGS, MAX_ID, listed_ids, text_ids
from pipeline.features.matching.images import ImageMatcher
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.section import VECTOR_FILES

LISTS = ("ids", "image_ids", "caption_ids")  # that are read beside a matrix
TEXTS = (".txt", ".csv", ".tsv", ".lst", ".list")


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
        orders = [list(map(_plain, captions[column])) for _, captions in self._parts()]
        return _is_other_order(list(map(_plain, lines)), orders)

    def _parts(self) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        yield in_split(self.images, self.needed), in_split(self.captions, self.needed)
        yield self.images, self.captions


def refuse_lists_beside(
    path: Path,
    names: Sequence[str],
    images: Collection[int],
    captions: Collection[int],
    order: Order,
) -> None:
    """Refuse a matrix beside lists of ids that would be passed over.

    Args:
        path: of the matrix, some of whose rows or columns have no ids.
        names: of the lists that are read, which are not there.
        images: numbers of lines that a list of images may have; none where their ids are known.
        captions: likewise of captions.
        order: what the rows are taken for.

    Raises:
        WorkbenchError: naming the lists, and the names that are read.
    """
    counts = {*images, *captions}
    if not counts:
        return
    found = []
    for file in _files(path, names, counts):
        for lines in _lines(file, counts):
            if len(lines) in images and order.of_images(lines):
                found.append(f"{file.name} (images)")
            elif len(lines) in captions and order.of_captions(lines, "caption_id"):
                found.append(f"{file.name} (captions)")
            elif len(lines) in captions and order.of_captions(lines, "text"):
                found.append(f"{file.name} (captions' texts, not their ids)")
    if found:
        read = " and ".join(f"{path.stem}.{name}.txt" for name in names)
        raise WorkbenchError(
            f"{path}: lists beside it that are not read, in another order than the corpus: "
            f"{listing(found)}; read are {read}",
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
        if file.suffix in {*TEXTS, *ENDINGS}
        and file != path
        and file.stem not in read
        and file.is_file()
        and least <= file.stat().st_size <= most
    ]


def _lines(file: Path, counts: Collection[int]) -> Iterator[list[str]]:
    """The ids of a list, if it has one of these numbers of them; a table's also without its
    head."""
    try:
        lines = text_ids(file) if file.suffix in TEXTS else listed_ids(file)
    except WorkbenchError:
        return  # no list of texts
    for start in (0, 1):
        if len(lines) - start in counts:
            yield lines[start:]


def _is_other_order(found: Sequence[str | None], orders: Sequence[Sequence[str]]) -> bool:
    """Whether these are the values of one of the orders, and in none of them."""
    if any(list(found) == list(order) for order in orders):
        return False
    counts = Counter(found)
    return any(counts == Counter(order) for order in orders)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
