"""Which image or caption each row, or column, of another program's matrix is about.

VSE++ and SCAN keep an image once for each of its captions. Whether a file does so is told by its
content, before its number of rows is compared with the corpus: 100 rows may be all images of a
corpus, or its 20 test images five times each.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipeline.corpus.tables import in_split
from pipeline.features.matching.repeats import Flags, first_difference, firsts_of, runs_of
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import say


@dataclass(frozen=True)
class RowIds:
    """What the rows of a matrix are about.

    Attributes:
        ids: of the K rows that count.
        first: (N,) which of the N rows these are.
    """

    ids: list[str]
    first: Flags

    @classmethod
    def of_all(cls, ids: Sequence[str]) -> "RowIds":
        return cls(list(ids), np.ones(len(ids), bool))


@dataclass(frozen=True)
class Side:
    """Images or captions of a corpus, along one side of a matrix.

    Attributes:
        table: of the corpus.
        key: the column of ids, image_id or caption_id.
        ids: of the rows, from the file or beside it; None for none.
        captions: (N,) number of captions of each image, None where the side is captions.
        needed: the split that must be there.
        where: begins messages.
    """

    table: pd.DataFrame
    key: str
    ids: Sequence[str] | None
    captions: Sequence[int] | None
    needed: str
    where: str

    @property
    def plain(self) -> set[int]:
        """Numbers of rows that the side may have without repetition."""
        if self.ids is not None:
            return {len(self.ids)}
        return {len(in_split(self.table, self.needed)), len(self.table)}

    def repeated(self, count: int, same: Callable[[], Flags]) -> RowIds | None:
        """The rows without ids as images that stand there several times.

        Args:
            count: N rows.
            same: (N,) which rows equal the one before them; asked for where the number fits.

        Returns:
            The images, None where no row is there twice as it would have to be.
        """
        if self.ids is not None:
            return None
        for ids, counts in self._repetitions(count):
            firsts = firsts_of(counts)
            if first_difference(same(), firsts) is None:
                return RowIds(ids, firsts)
        return None

    def rows(self, count: int, same: Callable[[], Flags]) -> RowIds:
        """What the rows are about, repeated or not.

        Args:
            count: N rows.
            same: (N,) which rows equal the one before them; asked for where the number fits.

        Returns:
            The ids, each once.

        Raises:
            WorkbenchError: where the number fits nothing, or repeated rows differ.
        """
        if self.ids is not None:
            return self._listed(count, same)
        found = self.repeated(count, same)
        if found is not None:
            self._say_once(found)
            return found
        self._refuse_half(count, same)
        part = in_split(self.table, self.needed)
        if count == len(part):
            say(
                f"{self.where}: no ids; the {count:,} rows are those of the {self.needed} split in "
                "order"
            )
            return RowIds.of_all(part[self.key].tolist())
        if count == len(self.table):
            say(f"{self.where}: no ids; the {count:,} rows are those of the whole corpus in order")
            return RowIds.of_all(self.table[self.key].tolist())
        raise WorkbenchError(
            f"{self.where}: {count:,} rows without ids; the corpus has {len(part):,} in its "
            f"{self.needed} split and {len(self.table):,} in all{self._differing(count, same)}",
            "without ids the rows are those of one of these, in the order of the corpus",
        )

    def _listed(self, count: int, same: Callable[[], Flags]) -> RowIds:
        ids = list(self.ids or ())
        if len(ids) != count:
            raise WorkbenchError(f"{self.where}: {len(ids):,} ids for {count:,} rows")
        runs = runs_of(ids)
        firsts = firsts_of(runs)
        once = [ids[row] for row in np.flatnonzero(firsts)]
        if self.captions is None or len(once) == count:
            return RowIds.of_all(ids)
        own = dict(zip(self.table[self.key], self.captions, strict=True))
        if len(set(runs)) > 1 and runs != [own.get(name, 0) for name in once]:
            return RowIds.of_all(ids)
        row = first_difference(same(), firsts)
        if row is not None:
            raise WorkbenchError(
                f"{self.where}: rows {row - 1:,} and {row:,} (from 0) have the id {ids[row]}, and "
                "differ",
                "keep one row for each id",
            )
        found = RowIds(once, firsts)
        self._say_once(found)
        return found

    def _say_once(self, rows: RowIds) -> None:
        counts = np.diff([*np.flatnonzero(rows.first), len(rows.first)]).tolist()
        say(
            f"{self.where}: {len(counts):,} images stand there {_times(counts)} times each in a "
            "row; taken once"
        )

    def _repetitions(self, count: int) -> Iterator[tuple[list[str], list[int]]]:
        """Images that so many rows may show, and how often each."""
        if self.captions is None:
            return
        table = self.table.assign(captions=self.captions)
        for part in (in_split(table, self.needed), table):
            own = part["captions"].tolist()
            times, rest = divmod(count, len(part))
            if sum(own) == count and max(own) > 1:
                yield part[self.key].tolist(), own
            if rest == 0 and times > 1 and own != [times] * len(part):
                yield part[self.key].tolist(), [times] * len(part)

    def _refuse_half(self, count: int, same: Callable[[], Flags]) -> None:
        """Raise WorkbenchError where most rows repeat as images would, and some do not."""
        for _, counts in self._repetitions(count):
            firsts = firsts_of(counts)
            row = first_difference(same(), firsts)
            if row is not None and 2 * (same() & ~firsts).sum() >= (~firsts).sum():
                raise WorkbenchError(
                    f"{self.where}: {len(counts):,} images stand there {_times(counts)} times each "
                    f"in a row, but rows {row - 1:,} and {row:,} (from 0) differ",
                    "keep one row for each image",
                )

    def _differing(self, count: int, same: Callable[[], Flags]) -> str:
        """Why the rows are no repeated images, where their number would fit."""
        for _, counts in self._repetitions(count):
            row = first_difference(same(), firsts_of(counts))
            times = f"{len(counts):,} images {_times(counts)} times each"
            return f"; they are not {times}, as rows {(row or 1) - 1:,} and {row:,} differ"
        return ""


def captions_per_image(images: pd.DataFrame, captions: pd.DataFrame) -> list[int]:
    """How many captions each image has.

    Args:
        images: (N rows) the table of images.
        captions: the table of captions.

    Returns:
        N numbers, in the order of the images.
    """
    counts = captions["image_id"].value_counts()
    return counts.reindex(images["image_id"], fill_value=0).tolist()


def _times(counts: Sequence[int]) -> str:
    fewest = min(counts)
    most = max(counts)
    return str(most) if fewest == most else f"{fewest} to {most}"
