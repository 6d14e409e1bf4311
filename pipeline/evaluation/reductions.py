"""Sums and extremes along either axis of a score matrix, in blocks, so that criteria on large
matrices need little memory beside their result.

Equal columns or rows give bitwise equal results: a criterion must not break the ties of a collapsed
model by rounding. So values are summed in an order that does not depend on their place.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch

from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.ranks import check_finite

# Scores worked on at once: 8 MB. Blocks of 1 MB are as fast on one thread, but with two threads on
# a busy machine each small step waits for the slower one; 16 MB took too much memory.
BLOCK = 1 << 21
FLOAT32_LIMIT = float(np.finfo(np.float32).max)

IMAGES, CAPTIONS = 0, 1  # axes of a score matrix
QUERIES = {"i2t": IMAGES, "t2i": CAPTIONS}  # the axis of the queries, by direction


def row_blocks(scores: torch.Tensor) -> Iterator[slice]:
    """Slices of rows that cut (N, M) scores into about BLOCK scores each."""
    height = max(1, BLOCK // scores.shape[1])
    for top in range(0, len(scores), height):
        yield slice(top, min(top + height, len(scores)))


def lines(scores: torch.Tensor, axis: int) -> Iterator[tuple[slice, torch.Tensor]]:
    """Blocks of the lines that run along `axis`, one per row and contiguous, and their numbers.

    axis 1 gives the rows themselves, which must not be changed; axis 0 gives copies of columns.
    """
    turned = scores if axis == 1 else scores.T
    for rows in row_blocks(turned):
        yield rows, turned[rows].contiguous()


def shared(scores: np.ndarray) -> torch.Tensor:
    """The scores as a float32 tensor, not copied where they are contiguous float32 already.

    Raises WorkbenchError unless scores are a matrix with at least one image and one caption.
    """
    if scores.ndim != 2 or not scores.size:
        raise WorkbenchError(
            f"scores of shape {scores.shape}: expected (images, captions), at least one of each"
        )
    return torch.from_numpy(np.require(scores, np.float32, ["C", "W"]))


def checked_range(scores: torch.Tensor) -> tuple[float, float]:
    """Smallest and largest score; WorkbenchError naming the first NaN or infinity."""
    low, high = math.inf, -math.inf
    for rows in row_blocks(scores):
        ends = [float(end) for end in scores[rows].aminmax()]
        if not all(math.isfinite(end) for end in ends):
            check_finite(scores[rows].numpy(), rows.start, 0)
        low, high = min(low, ends[0]), max(high, ends[1])
    return low, high


def log_sum_exp(
    scores: torch.Tensor, axis: int, beta: float, offset: torch.Tensor | None = None
) -> torch.Tensor:
    """log of the sum along `axis` of exp(beta * scores + offset), without overflow.

    Args:
        scores: (N, M) float32.
        axis: IMAGES to sum over images, CAPTIONS over captions.
        beta: inverse temperature.
        offset: one float32 number per image or caption summed over, None for zeros.

    Returns:
        (M,) float32 over images, (N,) over captions.
    """
    over = _over_images if axis == IMAGES else _over_captions
    return over(scores, beta, offset).float()


def _over_captions(scores: torch.Tensor, beta: float, offset: torch.Tensor | None) -> torch.Tensor:
    sums = torch.empty(len(scores), dtype=torch.float64)
    for rows in row_blocks(scores):
        tile = scores[rows] * beta
        if offset is not None:
            tile += offset
        top = tile.amax(1)
        sums[rows] = tile.sub_(top[:, None]).exp_().sum(1).double().log() + top
    return sums


def _over_images(scores: torch.Tensor, beta: float, offset: torch.Tensor | None) -> torch.Tensor:
    top = torch.full(scores.shape[1:], -math.inf)
    sums = torch.zeros(scores.shape[1:], dtype=torch.float64)
    for rows in row_blocks(scores):
        tile = scores[rows] * beta
        if offset is not None:
            tile += offset[rows, None]
        higher = torch.maximum(top, tile.amax(0))
        sums *= (top - higher).exp()
        sums += _column_sums(tile.sub_(higher).exp_())
        top = higher
    return sums.log() + top


def _column_sums(tile: torch.Tensor) -> torch.Tensor:
    """The sum of every column; overwrites the tile. torch.sum rounds equal columns differently."""
    height = len(tile)
    while height > 1:
        half = height // 2
        tile[:half] += tile[height - half : height]
        height -= half
    return tile[0]


def nearest_mean(scores: torch.Tensor, axis: int, k: int) -> torch.Tensor:
    """Mean of the k largest scores along `axis`.

    Args:
        scores: (N, M) float32.
        axis: IMAGES for the nearest images of each caption, CAPTIONS for the nearest captions.
        k: up to the length of the axis.

    Returns:
        (M,) float32 along images, (N,) along captions.
    """
    means = torch.empty(scores.shape[1 - axis])
    for rows, block in lines(scores, axis):
        best = block.topk(k, dim=1).values.double()  # sorted: equal lines are summed alike
        means[rows] = (sum(best.unbind(1), torch.zeros(())) / k).float()
    return means


def best_along(scores: torch.Tensor, axis: int) -> torch.Tensor:
    """The largest score along `axis`: (M,) or (N,)."""
    if axis == IMAGES:
        return scores.amax(0)
    return torch.cat([scores[rows].amax(1) for rows in row_blocks(scores)])


def with_terms(
    scores: torch.Tensor,
    scale: float | torch.Tensor,
    image_terms: torch.Tensor | None,
    caption_terms: torch.Tensor | None,
) -> np.ndarray:
    """scale * scores plus terms, as a new matrix.

    Args:
        scores: (N, M) float32.
        scale: a factor, the same for all.
        image_terms: (N,) one per image, None for none.
        caption_terms: (M,) one per caption, None for none.

    Returns:
        (N, M) float32.
    """
    return mapped(scores, lambda tile, rows: _add(tile * scale, rows, image_terms, caption_terms))


def _add(
    tile: torch.Tensor,
    rows: slice,
    image_terms: torch.Tensor | None,
    caption_terms: torch.Tensor | None,
) -> torch.Tensor:
    if caption_terms is not None:
        tile += caption_terms
    if image_terms is not None:
        tile += image_terms[rows, None]
    return tile


def mapped(
    scores: torch.Tensor, change: Callable[[torch.Tensor, slice], torch.Tensor]
) -> np.ndarray:
    """A new float32 matrix: `change` of each block of rows, given the block and its row numbers."""
    result = torch.empty_like(scores)
    for rows in row_blocks(scores):
        result[rows] = change(scores[rows], rows)
    return result.numpy()
