"""How unevenly the items of a gallery are retrieved: hubs before and after an inference criterion.

In the true matching no caption is the nearest of more than one image, so hubs show errors without
any labels (kNN-margin paper, section 3.5 and table 5).
"""

from dataclasses import dataclass

import numpy as np
import torch

from pipeline.evaluation.reductions import IMAGES, QUERIES, largest_score
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.tiles import Tiles, as_tiles

TABLE = {"0": (0, 0), "1": (1, 1), ">=2": (2, None), ">=5": (5, None), ">=10": (10, None)}


@dataclass(frozen=True, eq=False)
class Hubness:
    """Statistics of the k-occurrence: of how many queries an item is among the k nearest.

    Attributes:
        counts: (items,) int64 k-occurrence of every item, their sum is queries * k.
        table: number of items whose k-occurrence is 0, 1, >= 2, >= 5 and >= 10 (kNN-margin paper,
            table 5).
        skewness: third standardised moment of the k-occurrence, 0 when it is the same for all items
            (Radovanovic et al. 2010).
        largest: k-occurrence of the largest hub.
        largest_index: its number, the lowest of several.
    """

    counts: np.ndarray
    table: dict[str, int]
    skewness: float
    largest: int
    largest_index: int


def hubness(scores: np.ndarray | Tiles, direction: str, k: int = 1) -> Hubness:
    """Hubness of the items that queries of one direction look for.

    Args:
        scores: (N images, M captions) finite floats, larger is nearer; of tied items those with the
            lowest numbers are a query's nearest, so that the counts do not depend on a sorting
            algorithm.
        direction: i2t for the captions under image queries, t2i for the images under caption
            queries.
        k: nearest items that count of each query.

    Raises:
        WorkbenchError: NaN and infinity, k larger than the gallery.
    """
    counts = occurrences(scores, direction, k)
    return Hubness(
        counts=counts,
        table=_table(counts),
        skewness=_skewness(counts),
        largest=int(counts.max()),
        largest_index=int(counts.argmax()),
    )


def pairs_table(counts: np.ndarray, pairs: int) -> dict[str, int]:
    """The counts of the kNN-margin paper's table 5: of images listed once for each caption.

    That gallery has as many items as there are pairs of image and caption, 25,000 on MS-COCO.
    Copies of an image score alike and a query finds the first of them; all others are the nearest
    of no query, hubs or not: with five captions an image at least 80 %.

    Args:
        counts: (N,) 1-occurrence of every image, each with at least one caption.
        pairs: number of captions.

    Returns:
        As `Hubness.table`, in pairs.
    """
    return _table(counts) | {"0": pairs - int(np.count_nonzero(counts))}


def occurrences(scores: np.ndarray | Tiles, direction: str, k: int = 1) -> np.ndarray:
    """Of how many queries each item is among the k nearest.

    Args:
        scores: (N images, M captions) finite floats, as in `hubness`.
        direction: i2t or t2i.
        k: nearest items that count of each query.

    Returns:
        (M,) for i2t, (N,) for t2i, int64.

    Raises:
        WorkbenchError: NaN and infinity, k larger than the gallery.
    """
    tiles = as_tiles(scores)
    largest_score(tiles)
    queries = QUERIES[direction]
    gallery = tiles.shape[1 - queries]
    if not 1 <= k <= gallery:
        raise WorkbenchError(
            f"k = {k}: the k nearest of a gallery of {gallery} items; allowed are 1 to {gallery}"
        )
    counts = np.zeros(gallery, np.int64)
    nearest: Nearest | None = None
    for found in tiles.each(_NearestItems(queries, k)):
        if queries == IMAGES:
            counts += np.bincount(found[1].flatten().numpy(), minlength=gallery)
        else:
            nearest = found if nearest is None else _merged(nearest, found, k)
    if nearest is not None:
        counts += np.bincount(nearest[1].flatten().numpy(), minlength=gallery)
    return counts


Nearest = tuple[torch.Tensor, torch.Tensor]  # scores and numbers of some items of each query


@dataclass(frozen=True)
class _NearestItems:
    queries: int
    k: int

    def __call__(self, tiles: Tiles, rows: slice) -> Nearest:
        """Of these images their nearest captions, or of all captions the nearest of these images:
        (Q, k) each, fewer where there are, by rising numbers."""
        found: list[Nearest] = []
        for columns in tiles.columns():
            tile = tiles.tile(rows, columns)
            if self.queries == IMAGES:
                own = _first(tile.contiguous(), columns.start, self.k)
                found = [_merged(found[0], own, self.k) if found else own]
            else:
                found.append(_first(tile.T.contiguous(), rows.start, self.k))
        return torch.cat([own[0] for own in found]), torch.cat([own[1] for own in found])


def _first(lines: torch.Tensor, start: int, k: int) -> Nearest:
    """Of lines (Q, J) of items numbered from `start` the nearest k, or all."""
    if k == 1:
        values, numbers = lines.max(1, keepdim=True)  # of equal ones the first
        return values, numbers + start
    chosen = _nearest(lines, min(k, lines.shape[1]))
    numbers = chosen.nonzero()[:, 1].view(len(lines), -1)
    return lines.gather(1, numbers), numbers + start


def _merged(one: Nearest, other: Nearest, k: int) -> Nearest:
    """The nearest k of both, or all; the items of `other` have larger numbers."""
    values, numbers = (torch.cat(pair, 1) for pair in zip(one, other, strict=True))
    _, places = _first(values, 0, k)
    return values.gather(1, places), numbers.gather(1, places)


def _nearest(block: torch.Tensor, k: int) -> torch.Tensor:
    """(Q, items) booleans: the k nearest items of every query, of tied ones the first."""
    last = block.topk(k, dim=1).values[:, -1:]
    chosen = block >= last
    crowded = torch.nonzero(chosen.sum(1) > k)[:, 0]
    if len(crowded):
        tied = block[crowded] == last[crowded]
        room = k - (block[crowded] > last[crowded]).sum(1, keepdim=True)
        chosen[crowded] &= ~tied | (tied.cumsum(1) <= room)
    return chosen


def _table(counts: np.ndarray) -> dict[str, int]:
    return {name: _items_within(counts, *ends) for name, ends in TABLE.items()}


def _items_within(counts: np.ndarray, low: int, high: int | None) -> int:
    return int(((counts >= low) & (high is None or counts <= high)).sum())


def _skewness(counts: np.ndarray) -> float:
    deviations = counts - counts.mean()
    variance = float((deviations**2).mean())
    if counts.min() == counts.max():  # no spread, no skewness: rounding must not make one up
        return 0.0
    return float((deviations**3).mean()) / variance**1.5
