"""Which images and captions belong together, and where queries find what belongs to them.

Most corpora say it by groups: an image with its captions, or all images and captions of one person.
Extended positives (ECCV Caption, CxC) say it pair by pair: a caption may fit images that it was not
written for. Such lists judge some queries and not others, and a pair may count for its image's
query alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from pipeline.runtime.errors import WorkbenchError, listing

Direction = Literal["i2t", "t2i"]
DIRECTIONS: tuple[Direction, ...] = ("i2t", "t2i")  # image queries, caption queries
Groups = npt.ArrayLike


@dataclass(frozen=True, eq=False)
class Ranking:
    """Where Q queries of one direction find their true items.

    Attributes:
        ranks: (Q, R) float64, ascending, from 1, behind other items of equal score; infinity where
            a query has fewer than R true items.
        gains: (Q, R) float64, the grades of these items, of equal scores the smaller first; 0 where
            there are fewer.
    """

    ranks: np.ndarray
    gains: np.ndarray

    @property
    def true_counts(self) -> np.ndarray:
        """How many items are true: (Q,) int64, from 1."""
        return np.isfinite(self.ranks).sum(axis=1)


def group_codes(image_groups: Groups, caption_groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    """Number groups 0, 1, ... in their order of appearance.

    Args:
        image_groups: (N,) integers or strings, the group of each image.
        caption_groups: (M,) of the same type, the group of each caption.

    Returns:
        (N,) and (M,) int64, equal where an image and a caption belong together.

    Raises:
        WorkbenchError: no images or no captions, groups of different types, an item without a
            group, and queries without a true item, by name.
    """
    images = np.asarray(image_groups)
    captions = np.asarray(caption_groups)
    if images.ndim != 1 or captions.ndim != 1 or not len(images) or not len(captions):
        raise WorkbenchError(
            f"groups of shape {images.shape} and {captions.shape}: expected at least one image "
            "and one caption, one group each"
        )
    kinds = {"i" if array.dtype.kind in "iu" else "s" for array in (images, captions)}
    if len(kinds) != 1 or images.dtype.kind in "fcb" or captions.dtype.kind in "fcb":
        raise WorkbenchError(
            f"groups of type {images.dtype} and {captions.dtype}: expected integers or strings, "
            "the same for images and captions"
        )
    codes, names = pd.factorize(np.concatenate([images.astype(object), captions.astype(object)]))
    if (codes < 0).any():
        raise WorkbenchError(f"{(codes < 0).sum()} images or captions have no group")
    image_codes, caption_codes = np.split(codes.astype(np.int64), [len(images)])
    lonely = {
        "images without a caption": np.setdiff1d(image_codes, caption_codes),
        "captions without an image": np.setdiff1d(caption_codes, image_codes),
    }
    found = [
        f"{what}: those of group {listing(names[missing], 5)}"
        for what, missing in lonely.items()
        if len(missing)
    ]
    if found:
        raise WorkbenchError(
            "queries without any true item: " + "; ".join(found),
            "a rank needs at least one true item; drop these queries or mend the groups",
        )
    return image_codes, caption_codes


def true_pairs(images: np.ndarray, captions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of equal groups, without a mask of N x M.

    Args:
        images: (N,) group numbers from 0.
        captions: (M,) group numbers from 0.

    Returns:
        Image and caption numbers (P,) of the pairs, by image and then caption.
    """
    order = np.argsort(captions, kind="stable")
    counts = np.bincount(captions, minlength=int(images.max()) + 1)
    starts = (np.cumsum(counts) - counts)[images]
    counts = counts[images]
    image = np.repeat(np.arange(len(images)), counts)
    return image, order[np.repeat(starts, counts) + places_in_runs(counts)]


def places_in_runs(counts: np.ndarray) -> np.ndarray:
    """0, 1, ... counts[0] - 1, 0, 1, ... counts[1] - 1, and so on: (sum of counts,) int64."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


def values_descending(query: np.ndarray, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The values of every query's true items in a row of its own, largest first.

    Args:
        query: (P,) places of the queries, ascending.
        values: (P,) a float of each of their true items.
        counts: (Q,) how many true items each query has.

    Returns:
        (Q, R), R the largest count; -infinity where a query has fewer.
    """
    rows = np.full((len(counts), int(counts.max(initial=0))), -np.inf, values.dtype)
    rows[query, places_in_runs(counts)] = values
    return -np.sort(-rows, axis=1)


@dataclass(frozen=True, eq=False)
class Positives:
    """True pairs of one direction, sorted by query and then item.

    Attributes:
        query: (P,) int64 numbers of the queries.
        item: (P,) int64 numbers of their items.
        grade: (P,) float64 above 0, how true each pair is.
        size: how many queries and items there are.
    """

    query: np.ndarray
    item: np.ndarray
    grade: np.ndarray
    size: tuple[int, int]

    @property
    def queries(self) -> np.ndarray:
        """The numbers of the queries that have true items, ascending."""
        return np.unique(self.query)

    def sorted_grades(self) -> np.ndarray:
        """(queries with true items, R): their grades, descending, 0 where there are fewer."""
        _, query, counts = np.unique(self.query, return_inverse=True, return_counts=True)
        return np.maximum(values_descending(query, self.grade, counts), 0.0)


@dataclass(frozen=True, eq=False)
class Relevance:
    """P pairs of N images and M captions that belong together.

    Attributes:
        images: (P,) int64 numbers.
        captions: (P,) int64 numbers.
        grades: (P,) float64 above 0.
        counts: by direction (P,) booleans, whether a pair counts for its query there.
        size: N and M.
        name: of the list that the pairs are from.
    """

    images: np.ndarray
    captions: np.ndarray
    grades: np.ndarray
    counts: dict[Direction, np.ndarray]
    size: tuple[int, int]
    name: str

    def positives(self, way: Direction) -> Positives:
        """The true items of all queries of one direction."""
        flags = self.counts[way]
        is_i2t = way == "i2t"
        query = (self.images if is_i2t else self.captions)[flags]
        item = (self.captions if is_i2t else self.images)[flags]
        order = np.lexsort((item, query))
        size = self.size if is_i2t else self.size[::-1]
        return Positives(query[order], item[order], self.grades[flags][order], size)

    def inside(self, images: np.ndarray, captions: np.ndarray) -> "Relevance":
        """The pairs among some images and captions, numbered anew in their order.

        Args:
            images: (n,) numbers of images.
            captions: (m,) numbers of captions.

        Returns:
            The pairs of which both are there.
        """
        return _pairs_inside(
            image=pd.Index(images).get_indexer(self.images),
            caption=pd.Index(captions).get_indexer(self.captions),
            grades=self.grades,
            counts=self.counts,
            size=(len(images), len(captions)),
            name=self.name,
        )


def relevance_of(
    name: str, table: pd.DataFrame, image_ids: Sequence[str], caption_ids: Sequence[str]
) -> Relevance:
    """The pairs of a table among some images and captions; all others are left out.

    Args:
        name: of the list, corpus.positives of params.yaml.
        table: image_id, caption_id, grade, and by direction (columns i2t and t2i) whether a pair
            counts for its query.
        image_ids: (N,) the images.
        caption_ids: (M,) the captions.

    Returns:
        The pairs, by the numbers of images and captions.
    """
    return _pairs_inside(
        image=pd.Index(image_ids).get_indexer(pd.Index(table["image_id"])),
        caption=pd.Index(caption_ids).get_indexer(pd.Index(table["caption_id"])),
        grades=table["grade"].to_numpy(np.float64),
        counts={way: table[way].to_numpy(bool) for way in DIRECTIONS},
        size=(len(image_ids), len(caption_ids)),
        name=name,
    )


def _pairs_inside(
    image: np.ndarray,
    caption: np.ndarray,
    grades: np.ndarray,
    counts: Mapping[Direction, np.ndarray],
    size: tuple[int, int],
    name: str,
) -> Relevance:
    """Pairs (P,) without those that have -1 for an image or a caption."""
    is_inside = (image >= 0) & (caption >= 0)
    return Relevance(
        images=image[is_inside].astype(np.int64),
        captions=caption[is_inside].astype(np.int64),
        grades=grades[is_inside],
        counts={way: flags[is_inside] for way, flags in counts.items()},
        size=size,
        name=name,
    )
