"""Sums and extremes along either axis of scores, tile by tile, so that criteria need no matrix.

Equal columns or rows give bitwise equal results: a criterion must not break the ties of a collapsed
model by rounding. So values are summed in an order that does not depend on their place in a tile,
and what tiles give is put together in their order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pipeline.scores.tiles import Tiles, check_finite

FLOAT32_LIMIT = float(np.finfo(np.float32).max)

IMAGES, CAPTIONS = 0, 1  # axes of a score matrix
QUERIES = {"i2t": IMAGES, "t2i": CAPTIONS}  # the axis of the queries, by direction
PARTS = 16  # of the lines of a tile, of which the best are found first

Sums = tuple[torch.Tensor, torch.Tensor]  # largest exponent, and sum of the others' exponentials


def largest_score(scores: Tiles) -> float:
    """A number that no score exceeds in absolute value.

    Raises WorkbenchError naming the first NaN or infinity. Products of embeddings are bounded by
    the lengths of these, which takes no products.
    """
    bound = scores.largest()
    if bound < math.sqrt(FLOAT32_LIMIT):
        return bound
    return max(largest for largest in scores.each(_largest))


def _largest(tiles: Tiles, rows: slice) -> float:
    found = 0.0
    for columns in tiles.columns():
        tile = tiles.tile(rows, columns)
        ends = [float(end) for end in tile.aminmax()]
        if not all(math.isfinite(end) for end in ends):
            check_finite(tile, rows.start, columns.start)
        found = max(found, *map(abs, ends))
    return found


def log_sum_exp(
    scores: Tiles,
    axes: Sequence[int],
    beta: float,
    offsets: Sequence[torch.Tensor | None] = (None, None),
) -> list[torch.Tensor]:
    """log of the sum along axes of exp(beta * scores + offset), without overflow.

    Args:
        scores: (N, M).
        axes: for each result, IMAGES to sum over images, CAPTIONS over captions.
        beta: inverse temperature.
        offsets: by axis, one float32 number per image or caption that is summed over, None for
            zeros.

    Returns:
        For each of `axes` (M,) float32 over images, (N,) over captions.
    """
    sums: dict[int, list[Sums]] = {axis: [] for axis in axes}
    for part in scores.each(_Exponentials(tuple(sums), beta, tuple(offsets))):
        for axis, found in part.items():
            if axis == IMAGES and sums[axis]:
                sums[axis] = [_added(sums[axis][0], found)]
            else:
                sums[axis].append(found)
    logs = {
        axis: torch.cat([total.log() + top for top, total in found]).float()
        for axis, found in sums.items()
    }
    return [logs[axis] for axis in axes]


def _added(one: Sums, other: Sums) -> Sums:
    top = torch.maximum(one[0], other[0])
    total = sum(total * (own - top).exp() for own, total in (one, other))
    assert isinstance(total, torch.Tensor)
    return top, total


@dataclass(frozen=True, eq=False)
class _Exponentials:
    axes: tuple[int, ...]
    beta: float
    offsets: tuple[torch.Tensor | None, ...]

    def __call__(self, tiles: Tiles, rows: slice) -> dict[int, Sums]:
        """Sums over the captions for these images, and over these images for all captions."""
        found: dict[int, list[Sums]] = {axis: [] for axis in self.axes}
        scaled, powers = (torch.empty(tiles.block) for _ in range(2))
        for columns in tiles.columns():
            tile = tiles.tile(rows, columns)
            for axis in self.axes:
                own = scaled.view(-1)[: tile.numel()].view(tile.shape)
                torch.mul(tile, self.beta, out=own)
                part = _sums(own, axis, self._offset(axis, rows, columns), powers)
                if axis == CAPTIONS and found[axis]:
                    found[axis] = [_added(found[axis][0], part)]
                else:
                    found[axis].append(part)
        return {
            axis: (torch.cat([top for top, _ in parts]), torch.cat([total for _, total in parts]))
            for axis, parts in found.items()
        }

    def _offset(self, axis: int, rows: slice, columns: slice) -> torch.Tensor | None:
        offset = self.offsets[axis]
        if offset is None:
            return None
        return offset[rows, None] if axis == IMAGES else offset[columns]


def _sums(tile: torch.Tensor, axis: int, offset: torch.Tensor | None, powers: torch.Tensor) -> Sums:
    """Of exponents (n, m), which are overwritten as `powers` is, along an axis."""
    if offset is not None:
        tile += offset
    top = tile.amax(axis)
    out = powers.view(-1)[: tile.numel()].view(tile.shape)
    torch.sub(tile, top if axis == IMAGES else top[:, None], out=tile)
    torch.exp(tile, out=out)
    return top, (_column_sums(out) if axis == IMAGES else out.sum(1)).double()


def _column_sums(tile: torch.Tensor) -> torch.Tensor:
    """The sum of every column; overwrites the tile. torch.sum rounds equal columns differently."""
    height = len(tile)
    while height > 1:
        half = height // 2
        tile[:half] += tile[height - half : height]
        height -= half
    return tile[0]


def nearest_means(scores: Tiles, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean of the k largest scores of every image and of every caption.

    Args:
        scores: (N, M).
        k: up to the smaller of both.

    Returns:
        (N,) and (M,) float32.
    """
    images, captions = [], torch.empty(0)
    for own, others in scores.each(_Nearest(k)):
        images.append(own)
        captions = others if not len(captions) else _first(torch.cat([captions, others], 1), k)
    return _mean(torch.cat(images)), _mean(captions)


def _mean(best: torch.Tensor) -> torch.Tensor:
    """(Q,) of (Q, k) values, falling: equal lines are summed alike."""
    total = sum(best.double().unbind(1), torch.zeros(()))
    return (total / best.shape[1]).float()


def _first(values: torch.Tensor, k: int) -> torch.Tensor:
    return values.topk(min(k, values.shape[1]), dim=1).values


@dataclass(frozen=True)
class _Nearest:
    k: int

    def __call__(self, tiles: Tiles, rows: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """The largest scores (n, k) of these images, and (M, k) of all captions among them."""
        images, captions = torch.empty(rows.stop - rows.start, 0), []
        for columns in tiles.columns():
            tile = tiles.tile(rows, columns)
            images = _first(torch.cat([images, largest(tile, CAPTIONS, self.k)], 1), self.k)
            captions.append(largest(tile, IMAGES, self.k))
        return images, torch.cat(captions)


def largest(tile: torch.Tensor, axis: int, k: int) -> torch.Tensor:
    """The k largest scores of every line along an axis, falling.

    Sorting all of a tile takes longer than the products it is made of. Cut into PARTS, the k
    largest of a line stand at k places of a part at most: those with the largest value of any part.

    Args:
        tile: (n, m).
        axis: IMAGES for the largest of each caption, CAPTIONS for those of each image.
        k: how many; all, where there are fewer.

    Returns:
        (m, k) or (n, k).
    """
    width = tile.shape[axis] // PARTS
    if width < 2 * k:
        return _first((tile if axis == CAPTIONS else tile.T).contiguous(), k)
    parts = tile.narrow(axis, 0, PARTS * width).unflatten(axis, (PARTS, width))
    rest = tile.narrow(axis, PARTS * width, tile.shape[axis] - PARTS * width)
    best = parts.amax(axis)
    places = (best if axis == CAPTIONS else best.T.contiguous()).topk(k, 1, sorted=False).indices
    if axis == CAPTIONS:
        found = parts.gather(2, places[:, None].expand(-1, PARTS, -1)).flatten(1)
        return _first(torch.cat([found, rest], 1), k)
    found = parts.gather(1, places.T[None].expand(PARTS, -1, -1)).flatten(0, 1)
    return _first(torch.cat([found, rest]).T.contiguous(), k)


def best_scores(scores: Tiles) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest score of every image (N,) and of every caption (M,)."""
    images, captions = [], torch.empty(0)
    for own, others in scores.each(_best):
        images.append(own)
        captions = others if not len(captions) else torch.maximum(captions, others)
    return torch.cat(images), captions


def _best(tiles: Tiles, rows: slice) -> tuple[torch.Tensor, torch.Tensor]:
    images, captions = torch.full((rows.stop - rows.start,), -math.inf), []
    for columns in tiles.columns():
        tile = tiles.tile(rows, columns)
        images = torch.maximum(images, tile.amax(1))
        captions.append(tile.amax(0))
    return images, torch.cat(captions)


@dataclass(frozen=True, eq=False)
class WithTerms:
    """scale * scores plus terms.

    Attributes:
        scale: a factor, the same for all.
        images: (N,) one term per image, None for none.
        captions: (M,) one term per caption, None for none.
    """

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


def item_terms(term: torch.Tensor, queries: int) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """One term per item as (terms of images, terms of captions); queries: axis of the queries."""
    return (None, term) if queries == IMAGES else (term, None)


def slow_log_softmax(s: Sequence[Sequence[float]], beta: float) -> list[list[float]]:
    """log of exp(beta s) / sum over queries of exp(beta s), from loops: what tests compare with.

    s: a row of scores per query. Returns as many rows.
    """
    out = [[0.0] * len(row) for row in s]
    for item, column in enumerate(zip(*s, strict=True)):
        largest = max(column)
        total = sum(math.exp(beta * (score - largest)) for score in column)
        for query, score in enumerate(column):
            out[query][item] = beta * (score - largest) - math.log(total)
    return out
