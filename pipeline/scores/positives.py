"""True pairs of images and captions one by one, where groups cannot say it: extended positives.

A caption may fit images that it was not written for. Lists of such pairs (ECCV Caption, CxC) judge
some queries and not others, and a pair may count for its image's query alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipeline.scores.ranking import DIRECTIONS, Direction


@dataclass(frozen=True, eq=False)
class Positives:
    """True items of Q queries, as sparse rows: `items[starts[q]:starts[q + 1]]` are those of q."""

    starts: np.ndarray  # (Q + 1,) int64, ascending from 0 to P
    items: np.ndarray  # (P,) int64 numbers
    grades: np.ndarray  # (P,) float64 above 0, how true they are
    num_items: int  # how many there are to rank

    @property
    def queries(self) -> np.ndarray:
        """The numbers of the queries that have true items, ascending."""
        return np.flatnonzero(np.diff(self.starts))

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Query number, item number and grade of every pair, (P,) each."""
        counts = np.diff(self.starts)
        return np.repeat(np.arange(len(counts)), counts), self.items, self.grades

    def sorted_grades(self) -> np.ndarray:
        """(queries with true items, R): their grades, descending, 0 where there are fewer."""
        counts, query = np.diff(self.starts), self.pairs[0]
        grades = np.zeros((len(counts), int(counts.max(initial=0))))
        grades[query, np.arange(len(query)) - self.starts[query]] = self.grades[
            np.lexsort((-self.grades, query))
        ]
        return grades[counts > 0]


@dataclass(frozen=True, eq=False)
class Relevance:
    """P pairs of N images and M captions that belong together."""

    images: np.ndarray  # (P,) int64 numbers
    captions: np.ndarray  # (P,) int64 numbers
    grades: np.ndarray  # (P,) float64 above 0
    counts: dict[Direction, np.ndarray]  # (P,) booleans, whether a pair counts for its query there
    size: tuple[int, int]  # N, M
    name: str  # of the list they are from

    def positives(self, way: Direction) -> Positives:
        """The true items of all queries of one direction."""
        own = self.counts[way]
        ends = (self.images, self.captions) if way == "i2t" else (self.captions, self.images)
        query, item = (numbers[own] for numbers in ends)
        order = np.lexsort((item, query))
        queries, items = self.size if way == "i2t" else self.size[::-1]
        totals = np.bincount(query, minlength=queries)
        starts = np.concatenate([[0], np.cumsum(totals)])
        return Positives(starts, item[order], self.grades[own][order], items)

    def inside(self, images: np.ndarray, captions: np.ndarray) -> "Relevance":
        """The pairs among some images (n,) and captions (m,), numbered anew in their order."""
        image = pd.Index(images).get_indexer(self.images)
        caption = pd.Index(captions).get_indexer(self.captions)
        size = len(images), len(captions)
        return _among(image, caption, self.grades, self.counts, size, self.name)


def relevance_of(
    name: str, table: pd.DataFrame, image_ids: Sequence[str], caption_ids: Sequence[str]
) -> Relevance:
    """The pairs of a table among some images and captions; all others are left out. name: of the
    list, corpus.positives; table: image_id, caption_id, grade, and by direction whether a pair
    counts, i2t and t2i; image_ids: (N,); caption_ids: (M,)."""
    image = pd.Index(image_ids).get_indexer(pd.Index(table["image_id"]))
    caption = pd.Index(caption_ids).get_indexer(pd.Index(table["caption_id"]))
    grades = table["grade"].to_numpy(np.float64)
    counts = {way: table[way].to_numpy(bool) for way in DIRECTIONS}
    return _among(image, caption, grades, counts, (len(image_ids), len(caption_ids)), name)


def _among(
    image: np.ndarray,
    caption: np.ndarray,
    grades: np.ndarray,
    counts: Mapping[Direction, np.ndarray],
    size: tuple[int, int],
    name: str,
) -> Relevance:
    """Pairs (P,) without those that have -1 for an image or a caption."""
    own = (image >= 0) & (caption >= 0)
    numbers = image[own].astype(np.int64), caption[own].astype(np.int64)
    flags = {way: each[own] for way, each in counts.items()}
    return Relevance(*numbers, grades[own], flags, size, name)
