"""Of how many queries each item is among the nearest, counted tile by tile."""

from dataclasses import dataclass

import numpy as np
import torch

from pipeline.evaluation.reductions import IMAGES, QUERIES, largest_score
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.tiles import Tiles, as_tiles


def occurrences(scores: np.ndarray | Tiles, direction: str, k: int = 1) -> np.ndarray:
    """Of how many queries each item is among the k nearest.

    Args:
        scores: (N images, M captions) finite floats, larger is nearer; of tied items those with the
            lowest numbers are a query's nearest, so that the counts do not depend on a sorting
            algorithm.
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
