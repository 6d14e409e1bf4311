"""Sums and extremes along either axis of scores, tile by tile, so that criteria need no matrix.

Equal columns or rows give bitwise equal results: a criterion must not break the ties of a collapsed
model by rounding. So values are summed in an order that does not depend on their place in a tile,
and the results of tiles are combined in the order of the tiles.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from pipeline.scores.tiles import Tiles, check_finite

FLOAT32_LIMIT = float(np.finfo(np.float32).max)

IMAGES, CAPTIONS = 0, 1  # axes of a score matrix
QUERIES = {"i2t": IMAGES, "t2i": CAPTIONS}  # the axis of the queries, by direction
PARTS = 16  # of the lines of a tile, of which the best are found first

# Numbers of each line: of every caption when reduced over images, of every image over captions.
Lines = tuple[torch.Tensor, ...]
# From a tile, the axis to reduce over, and the images and captions of the tile to its lines.
OfTile = Callable[[torch.Tensor, int, slice, slice], Lines]
# Two results for the same lines as one, those of earlier tiles first.
Combine = Callable[[Lines, Lines], Lines]


def reduced(
    scores: Tiles, axes: Sequence[int], of_tile: OfTile, combine: Combine
) -> dict[int, Lines]:
    """Scores (N, M) reduced over each of `axes`: IMAGES gives M lines, CAPTIONS N lines. `of_tile`
    and `combine` go to other processes: they must be picklable."""
    parts: dict[int, list[Lines]] = {axis: [] for axis in axes}
    for run in scores.each(partial(_of_run, tuple(parts), of_tile, combine)):
        for axis, lines in run.items():
            _append(parts[axis], lines, combine if axis == IMAGES else None)
    return {axis: _concatenated(pieces) for axis, pieces in parts.items()}


def _of_run(
    axes: Sequence[int], of_tile: OfTile, combine: Combine, tiles: Tiles, rows: slice
) -> dict[int, Lines]:
    """The same of some images: over them for all captions, over all captions for each of them."""
    parts: dict[int, list[Lines]] = {axis: [] for axis in axes}
    for columns in tiles.columns():
        tile = tiles.tile(rows, columns)
        for axis in axes:
            lines = of_tile(tile, axis, rows, columns)
            _append(parts[axis], lines, combine if axis == CAPTIONS else None)
    return {axis: _concatenated(pieces) for axis, pieces in parts.items()}


def _append(parts: list[Lines], lines: Lines, combine: Combine | None) -> None:
    if combine and parts:
        parts[0] = combine(parts[0], lines)
    else:
        parts.append(lines)


def _concatenated(parts: list[Lines]) -> Lines:
    return tuple(map(torch.cat, zip(*parts, strict=True)))


def largest_score(scores: Tiles) -> float:
    """A number that no score exceeds in absolute value; WorkbenchError for NaN or infinity.
    Products of embeddings are bounded by the lengths of these, which takes no products."""
    bound = scores.largest()
    if bound < math.sqrt(FLOAT32_LIMIT):
        return bound
    return max(max(-low, high) for low, high in scores.each(ends))


def ends(tiles: Tiles, rows: slice) -> tuple[float, float]:
    """The smallest and the largest score of some images; WorkbenchError for NaN or infinity."""
    limits = []
    for columns in tiles.columns():
        tile = tiles.tile(rows, columns)
        check_finite(tile, rows.start, columns.start)
        limits += [float(end) for end in tile.aminmax()]
    return min(limits), max(limits)


def log_sum_exp(
    scores: Tiles,
    axes: Sequence[int],
    beta: float,
    offsets: Sequence[torch.Tensor | None] = (None, None),
) -> list[torch.Tensor]:
    """log of the sum along each axis of exp(beta * score + offset), float32, without overflow: (M,)
    over images, (N,) over captions. offsets: by axis, (N,) or (M,), of what is summed over."""
    sums = reduced(scores, axes, _Exponentials(beta, tuple(offsets)), _added)
    logs = {axis: (total.log() + top).float() for axis, (top, total) in sums.items()}
    return [logs[axis] for axis in axes]


def _added(earlier: Lines, later: Lines) -> Lines:
    top = torch.maximum(earlier[0], later[0])
    return top, earlier[1] * (earlier[0] - top).exp() + later[1] * (later[0] - top).exp()


class _Exponentials:
    """The largest exponent, and the sum of exp(exponent - largest) in float64."""

    def __init__(self, beta: float, offsets: tuple[torch.Tensor | None, ...]) -> None:
        self.beta, self.offsets = beta, offsets
        self.memory = [torch.empty(0), torch.empty(0)]  # kept: fresh memory costs as much as exp

    def __call__(self, tile: torch.Tensor, axis: int, rows: slice, columns: slice) -> Lines:
        if self.memory[0].numel() < tile.numel():
            self.memory = [torch.empty(tile.numel()) for _ in range(2)]
        scaled, powers = (part[: tile.numel()].view(tile.shape) for part in self.memory)
        torch.mul(tile, self.beta, out=scaled)
        offset = self.offsets[axis]
        if offset is not None:
            scaled += offset[rows, None] if axis == IMAGES else offset[columns]
        top = scaled.amax(axis)
        scaled -= top if axis == IMAGES else top[:, None]
        torch.exp(scaled, out=powers)
        return top, (_column_sums(powers) if axis == IMAGES else powers.sum(1)).double()


def _column_sums(tile: torch.Tensor) -> torch.Tensor:
    """The sum of every column; overwrites the tile. torch.sum rounds equal columns differently."""
    height = len(tile)
    while height > 1:
        half = height // 2
        tile[:half] += tile[height - half : height]
        height -= half
    return tile[0]


def nearest_means(scores: Tiles, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean of the k largest scores of every image, (N,) float32, and of every caption, (M,)."""
    best = reduced(scores, [CAPTIONS, IMAGES], partial(_nearest, k), partial(_combined, k))
    return _mean(*best[CAPTIONS]), _mean(*best[IMAGES])


def _mean(best: torch.Tensor) -> torch.Tensor:
    """(Q,) of (Q, k) values, descending: equal lines are summed alike."""
    total = sum(best.double().unbind(1), torch.zeros(()))
    return (total / best.shape[1]).float()


def _first(values: torch.Tensor, k: int) -> torch.Tensor:
    return values.topk(min(k, values.shape[1]), dim=1).values


def _nearest(k: int, tile: torch.Tensor, axis: int, rows: slice, columns: slice) -> Lines:
    return (largest(tile, axis, k),)


def _combined(k: int, earlier: Lines, later: Lines) -> Lines:
    return (_first(torch.cat([*earlier, *later], 1), k),)


def largest(tile: torch.Tensor, axis: int, k: int) -> torch.Tensor:
    """The k largest scores (or all) of every line of a tile (n, m), descending: (m, k)
    of captions for IMAGES, (n, k) of images for CAPTIONS. The k largest stand at k places of a part
    at most, those with the largest value of any of PARTS: a sort takes longer than the products."""
    width = tile.shape[axis] // PARTS
    if width < 2 * k:
        return _first((tile if axis == CAPTIONS else tile.T).contiguous(), k)
    parts = tile.narrow(axis, 0, PARTS * width).unflatten(axis, (PARTS, width))
    rest = tile.narrow(axis, PARTS * width, tile.shape[axis] - PARTS * width)
    best = parts.amax(axis)
    places = (best if axis == CAPTIONS else best.T.contiguous()).topk(k, 1, sorted=False).indices
    if axis == CAPTIONS:
        candidates = parts.gather(2, places[:, None].expand(-1, PARTS, -1)).flatten(1)
        return _first(torch.cat([candidates, rest], 1), k)
    candidates = parts.gather(1, places.T[None].expand(PARTS, -1, -1)).flatten(0, 1)
    return _first(torch.cat([candidates, rest]).T.contiguous(), k)


def maximum(one: Lines, other: Lines) -> Lines:
    """The larger of two results for every line."""
    return (torch.maximum(*one, *other),)


@dataclass(frozen=True, eq=False)
class WithTerms:
    """Scores times `scale`, plus one term per image (N,) and per caption (M,); None adds none."""

    scale: float
    images: torch.Tensor | None
    captions: torch.Tensor | None

    def __call__(self, tile: torch.Tensor, rows: slice, columns: slice) -> torch.Tensor:
        """A new tile of a tile (n, m) of these images and captions."""
        result = tile * self.scale
        if self.captions is not None:
            result += self.captions[columns]
        if self.images is not None:
            result += self.images[rows, None]
        return result


def slow_log_softmax(s: Sequence[Sequence[float]], beta: float) -> list[list[float]]:
    """log of exp(beta s) / sum over queries of exp(beta s), a row per query, from loops."""
    out = [[0.0] * len(row) for row in s]
    for item, column in enumerate(zip(*s, strict=True)):
        largest = max(column)
        total = sum(math.exp(beta * (score - largest)) for score in column)
        for query, score in enumerate(column):
            out[query][item] = beta * (score - largest) - math.log(total)
    return out
