"""True pairs of images and captions one by one, where groups cannot say it: extended positives.

A caption may fit images that it was not written for. Lists of such pairs (ECCV Caption, CxC) judge
some queries and not others, and a pair may count for its image's query alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipeline.scores.ranking import DIRECTIONS, Direction


def descending(query: np.ndarray, scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(Q, R) the scores of every query's true items, -infinity where it has fewer than R. query:
    (P,) places of the queries, ascending; scores: (P,) of their true items; counts: (Q,)."""
    column = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
    levels = np.full((len(counts), int(counts.max(initial=0))), -np.inf, scores.dtype)
    levels[query, column] = scores
    return -np.sort(-levels, axis=1)


@dataclass(frozen=True, eq=False)
class Positives:
    """True pairs of one direction, by query and then item."""

    pairs: tuple[np.ndarray, np.ndarray, np.ndarray]  # (P,) numbers of queries and items, grades
    size: tuple[int, int]  # how many queries and items there are

    @property
    def queries(self) -> np.ndarray:
        """The numbers of the queries that have true items, ascending."""
        return np.unique(self.pairs[0])

    def sorted_grades(self) -> np.ndarray:
        """(queries with true items, R): their grades, descending, 0 where there are fewer."""
        _, query, counts = np.unique(self.pairs[0], return_inverse=True, return_counts=True)
        return np.maximum(descending(query, self.pairs[2], counts), 0.0)


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
        flags = self.counts[way]
        ends = (self.images, self.captions) if way == "i2t" else (self.captions, self.images)
        query, item = (numbers[flags] for numbers in ends)
        order = np.lexsort((item, query))
        size = self.size if way == "i2t" else self.size[::-1]
        return Positives((query[order], item[order], self.grades[flags][order]), size)

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
    inside = (image >= 0) & (caption >= 0)
    numbers = image[inside].astype(np.int64), caption[inside].astype(np.int64)
    flags = {way: values[inside] for way, values in counts.items()}
    return Relevance(*numbers, grades[inside], flags, size, name)
