"""Of how many queries each item is the nearest, counted tile by tile."""

import numpy as np
import torch

from pipeline.evaluation.reductions import CAPTIONS, QUERIES, Lines, largest_score, reduced
from pipeline.scores.tiles import Tiles, as_tiles


def occurrences(scores: np.ndarray | Tiles, direction: str) -> np.ndarray:
    """Of how many queries each item is the nearest: int64, (M,) for i2t, (N,) for t2i. scores: (N
    images, M captions) finite floats, larger is nearer; of tied items the first counts."""
    tiles = as_tiles(scores)
    largest_score(tiles)
    items = 1 - QUERIES[direction]
    _, numbers = reduced(tiles, [items], _nearest, _nearer)[items]
    return np.bincount(numbers.numpy(), minlength=tiles.shape[items])


def _nearest(tile: torch.Tensor, items: int, rows: slice, columns: slice) -> Lines:
    """Scores and numbers of the nearest items, (Q,) each; of equal ones the first."""
    lines = tile if items == CAPTIONS else tile.T
    values, numbers = lines.contiguous().max(1)
    return values, numbers + (columns if items == CAPTIONS else rows).start


def _nearer(one: Lines, other: Lines) -> Lines:
    values, numbers = zip(one, other, strict=True)
    is_later = values[1] > values[0]
    return tuple(torch.where(is_later, *pair[::-1]) for pair in (values, numbers))
