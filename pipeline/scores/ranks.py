"""Exact ranks of true items, both directions, in bounded memory.

Public code counts only items scored strictly above the true one (a collapsed model is then
perfect), takes the true score from another product than the rest (an item then outranks itself)
or lets NaN through. Here ties count against the model, true items never outrank each other in the
rank of the best, and anything that is not a finite number is an error.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.groups import Groups, TruePairs, group_codes
from pipeline.scores.positives import Positives
from pipeline.scores.ranking import DIRECTIONS, Direction, Ranking

BLOCK = 1 << 20  # scores held at once: 4 MB of float32 stay in the cache while they are counted
FLOATS = (np.float32, np.float64, np.float16)


@dataclass(frozen=True)
class Ranks:
    """1-based rank of the best-ranked true item of every query.

    i2t: (N,) int64, image queries over M captions; t2i: (M,) int64, caption queries over N images.
    """

    i2t: np.ndarray
    t2i: np.ndarray


def retrieval_ranks(
    scores: np.ndarray, image_groups: Groups, caption_groups: Groups, block: int = BLOCK
) -> Ranks:
    """Rank both directions of a score matrix.

    rank = 1 + number of items that are not true and score at least as high as the best true item.
    An image and a caption belong together when their groups are equal.

    Args:
        scores: (N images, M captions) floats, larger is better.
        image_groups: (N,) integers or strings.
        caption_groups: (M,) integers or strings.
        block: number of scores looked at at once, which bounds the memory beside `scores`.

    Raises:
        WorkbenchError: empty or ill-shaped input, NaN or infinity, a query without true item.
    """
    codes = group_codes(image_groups, caption_groups)
    i2t, t2i = (
        np.concatenate([part.ranks[:, 0] for part in rankings(scores, *codes, way, 1, block)])
        for way in DIRECTIONS
    )
    return Ranks(i2t.astype(np.int64), t2i.astype(np.int64))


def rankings(
    scores: np.ndarray,
    images: np.ndarray,
    captions: np.ndarray,
    way: Direction,
    depth: int | None = None,
    block: int = BLOCK,
) -> Iterator[Ranking]:
    """The queries of one direction in their order, some at a time, with the ranks of true items.

    The time grows with the largest number of true items of a query: one pass over the scores each.

    Args:
        scores: (N images, M captions) floats, larger is better.
        images: (N,) group numbers; every query needs an item of its group.
        captions: (M,) group numbers.
        way: whether images or captions are the queries.
        depth: of how many true items the ranks are wanted, None for all.
        block: number of scores looked at at once, which bounds the memory beside `scores`.

    Raises:
        WorkbenchError: ill-shaped input, NaN or infinity.
    """
    _check_matrix(scores, len(images), len(captions))
    pairs = TruePairs(*((images, captions) if way == "i2t" else (captions, images)))
    for rows, part, buffer in _tiles(scores, way, block):
        query, item = pairs.of(rows)
        yield _ranking(part, buffer, query - rows.start, item, None, way, depth)


def judged_rankings(
    scores: np.ndarray, positives: Positives, way: Direction, block: int = BLOCK
) -> Iterator[Ranking]:
    """The queries of one direction that have positives, some at a time, in their order.

    Args:
        scores: (N images, M captions) floats, larger is better.
        positives: true items of the queries: of N images or of M captions.
        way: whether images or captions are the queries.
        block: number of scores looked at at once, which bounds the memory beside `scores`.

    Raises:
        WorkbenchError: ill-shaped input, NaN or infinity.
    """
    queries, items = len(positives.starts) - 1, positives.num_items
    _check_matrix(scores, *((queries, items) if way == "i2t" else (items, queries)))
    for rows, part, buffer in _tiles(scores, way, block):
        query, item, grade = positives.of(rows)
        judged, numbers = np.unique(query, return_inverse=True)
        if len(judged):
            chosen = judged - rows.start
            lines = part[chosen] if way == "i2t" else part[:, chosen]
            yield _ranking(lines, buffer, numbers, item, grade, way, None)


def _check_matrix(scores: np.ndarray, images: int, captions: int) -> None:
    if scores.shape != (images, captions) or scores.dtype not in FLOATS:
        raise WorkbenchError(
            f"scores of shape {scores.shape} and type {scores.dtype} for {images} images "
            f"and {captions} captions: expected a float matrix (images, captions)"
        )


def _tiles(
    scores: np.ndarray, way: Direction, block: int
) -> Iterator[tuple[slice, np.ndarray, torch.Tensor]]:
    """Numbers of consecutive queries, their scores (rows for i2t, columns for t2i), and a float32
    buffer as large as these, the same every time."""
    queries, items = scores.shape if way == "i2t" else scores.shape[::-1]
    height = max(1, block // items)
    buffer = torch.empty(min(height, queries) * items)
    for start in range(0, queries, height):
        rows = slice(start, min(start + height, queries))
        part = scores[rows] if way == "i2t" else scores[:, rows]
        check_finite(part, *((start, 0) if way == "i2t" else (0, start)))
        yield rows, part, buffer


def _ranking(
    part: np.ndarray,
    buffer: torch.Tensor,
    query: np.ndarray,
    item: np.ndarray,
    grade: np.ndarray | None,
    way: Direction,
    depth: int | None,
) -> Ranking:
    """The ranking of a tile (Q, J), for t2i (J, Q), from its true pairs, grouped by query."""
    tile, flags = _tensor(part), buffer[: part.size].view(part.shape)
    if way == "t2i":
        part, tile, flags = part.T, tile.T, flags.T
    ranks = _true_ranks(tile, flags, query, item, depth)
    gains = np.isfinite(ranks).astype(np.float64)
    if grade is not None:
        own = part[query, item]
        gains[gains > 0] = grade[np.lexsort((grade, -own, query))]
    return Ranking(part, (query, item), ranks, gains)


def check_finite(scores: np.ndarray, top: int, left: int) -> None:
    """Refuse scores that are NaN or infinite.

    Args:
        scores: (n, m) of consecutive images and captions.
        top: number of the first image.
        left: number of the first caption.

    Raises:
        WorkbenchError: naming the first such score.
    """
    tile = _tensor(scores)
    # A sum is ten times faster than isfinite; it overflows only for scores near the type's limit.
    if math.isfinite(tile.sum()) or bool(torch.isfinite(tile).all()):
        return
    row, column = (int(part[0]) for part in torch.nonzero(~torch.isfinite(tile), as_tuple=True))
    raise WorkbenchError(
        f"score {float(tile[row, column])} of image {top + row} and caption {left + column}: "
        "every score must be a finite number",
        "the model or its features are broken; ranks of such scores would mean nothing",
    )


def _true_ranks(
    tile: torch.Tensor, flags: torch.Tensor, query: np.ndarray, item: np.ndarray, depth: int | None
) -> np.ndarray:
    """(Q, R) float64 as in `Ranking`, of the scores `tile` (Q, J) with true pairs query, item (P,).

    flags: (Q, J) float32, overwritten. Comparisons are written as float32 ones and summed: torch
    sums floats some twenty times faster than booleans, and sums of up to 2^24 ones are exact.
    """
    counts = np.bincount(query, minlength=len(tile))
    column = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
    levels = torch.full((len(tile), int(counts.max())), -math.inf, dtype=tile.dtype)
    levels[query, column] = tile[query, item]
    levels = levels.sort(dim=1, descending=True).values
    ranks = np.empty((len(tile), min(depth or levels.shape[1], levels.shape[1])))
    for better in range(ranks.shape[1]):
        level = levels[:, better : better + 1]
        reached = torch.ge(tile, level, out=flags).sum(1).to(torch.int64)
        false = reached - (levels >= level).sum(1)
        ranks[:, better] = (1 + better + false).numpy()
    ranks[np.arange(ranks.shape[1]) >= counts[:, None]] = np.inf
    return ranks


def _tensor(scores: np.ndarray) -> torch.Tensor:
    """The same memory as a tensor; a copy only of what torch cannot share."""
    is_shared = scores.flags.writeable and min(scores.strides) >= 0
    return torch.from_numpy(scores if is_shared else scores.copy())
