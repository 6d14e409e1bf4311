"""Of how many queries each item is among the nearest, counted tile by tile."""

from dataclasses import dataclass

import numpy as np
import torch

from pipeline.evaluation.reductions import CAPTIONS, QUERIES, Lines, largest_score, reduced
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.tiles import Tiles, as_tiles


def occurrences(scores: np.ndarray | Tiles, direction: str, k: int = 1) -> np.ndarray:
    """Of how many queries each item is among the k nearest: int64, (M,) for i2t, (N,) for t2i.

    scores: (N images, M captions) finite floats, larger is nearer. Of tied items those with the
    lowest numbers are a query's nearest, so that the counts do not depend on a sorting algorithm.
    """
    tiles = as_tiles(scores)
    largest_score(tiles)
    items = 1 - QUERIES[direction]
    gallery = tiles.shape[items]
    if not 1 <= k <= gallery:
        raise WorkbenchError(
            f"k = {k}: the k nearest of a gallery of {gallery} items; allowed are 1 to {gallery}"
        )
    nearest = _NearestItems(k)
    _, numbers = reduced(tiles, [items], nearest, nearest.combined)[items]
    return np.bincount(numbers.flatten().numpy(), minlength=gallery)


@dataclass(frozen=True)
class _NearestItems:
    """Scores and numbers of the nearest k items of each query, by rising numbers."""

    k: int

    def __call__(self, tile: torch.Tensor, items: int, rows: slice, columns: slice) -> Lines:
        lines = tile if items == CAPTIONS else tile.T
        start = columns.start if items == CAPTIONS else rows.start
        values, numbers = self.first(lines.contiguous())
        return values, numbers + start

    def combined(self, one: Lines, other: Lines) -> Lines:
        values, numbers = (torch.cat(pair, 1) for pair in zip(one, other, strict=True))
        values, places = self.first(values)
        return values, numbers.gather(1, places)

    def first(self, lines: torch.Tensor) -> Lines:
        """Of lines (Q, J) the nearest k, or all, and their places."""
        if self.k == 1:
            return tuple(lines.max(1, keepdim=True))  # of equal ones the first
        chosen = _nearest(lines, min(self.k, lines.shape[1]))
        places = chosen.nonzero()[:, 1].view(len(lines), -1)
        return lines.gather(1, places), places


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
