"""Dynamic inverted softmax: scores normalised over queries, but only of those drawn to a hub.

Bogolin et al. 2022, "Cross modal retrieval with querybank normalisation".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.reductions import IMAGES, best_scores, log_sum_exp, slow_log_softmax
from pipeline.scores.tiles import Rescored, Tiles

SINGLE_QUERY = True

Found = dict[int, torch.Tensor]  # numbers of images or captions, by the axis of the queries


def views(scores: Tiles, queries: Sequence[int], settings: Criterion) -> list[Tiles]:
    """The scores to rank by, for each axis of queries.

    A query is normalised (log of exp(beta s) / sum over the bank of exp(beta s)) when its nearest
    item is the nearest of some bank query, and keeps beta s otherwise. The other queries of the
    set are each query's bank: a hub is the nearest item of two queries. With the query itself in
    its bank everything would be normalised, which is inverted_softmax. (The sum may hold it, see
    inverted_softmax.) Of tied nearest items each counts.

    Args:
        scores: (N, M).
        queries: IMAGES or CAPTIONS, each once.
        settings: beta.
    """
    best = best_scores(scores)
    counts: Found = {}
    for part in scores.each(_NearestCounts(best, queries)):
        for axis, found in part.items():
            if axis not in counts:
                counts[axis] = found
            elif axis == IMAGES:
                counts[axis] += found
            else:
                counts[axis] = torch.cat([counts[axis], found])
    hubs = {axis: (count >= 2).float() for axis, count in counts.items()}
    active: Found = {}
    for part in scores.each(_Reaching(best, hubs)):
        for axis, found in part.items():
            if axis not in active:
                active[axis] = found
            elif axis == IMAGES:
                active[axis] = torch.cat([active[axis], found])
            else:
                active[axis] = torch.maximum(active[axis], found)
    sums = log_sum_exp(scores, queries, settings.beta)
    return [
        Rescored(scores, _Normalised(settings.beta, axis, active[axis], -own))
        for own, axis in zip(sums, queries, strict=True)
    ]


def reference(s: list[list[float]], settings: Criterion) -> list[list[float]]:
    """The same from loops, queries in rows, each with all others as its bank."""

    def nearest(row: list[float]) -> set[int]:
        return {item for item, score in enumerate(row) if score == max(row)}

    rows = slow_log_softmax(s, settings.beta)
    for query, row in enumerate(s):
        bank = s[:query] + s[query + 1 :]
        if not nearest(row) & set().union(*map(nearest, bank)):
            rows[query] = [settings.beta * score for score in row]
    return rows


@dataclass(frozen=True, eq=False)
class _NearestCounts:
    """Of how many queries each item is the nearest, or one of the tied nearest."""

    best: tuple[torch.Tensor, torch.Tensor]
    queries: Sequence[int]

    def __call__(self, tiles: Tiles, rows: slice) -> Found:
        found: dict[int, list[torch.Tensor]] = {axis: [] for axis in self.queries}
        for columns in tiles.columns():
            tile = tiles.tile(rows, columns)
            for axis, counts in found.items():
                counts.append(_nearest(tile, self.best, axis, rows, columns).sum(axis))
        return {
            axis: torch.cat(counts) if axis == IMAGES else torch.stack(counts).sum(0)
            for axis, counts in found.items()
        }


@dataclass(frozen=True, eq=False)
class _Reaching:
    """1 for queries of which a hub (1 in `hubs`, one number per item) is the nearest item, else 0.

    A hub is the nearest if its score equals the query's best.
    """

    best: tuple[torch.Tensor, torch.Tensor]
    hubs: Found

    def __call__(self, tiles: Tiles, rows: slice) -> Found:
        found: dict[int, list[torch.Tensor]] = {axis: [] for axis in self.hubs}
        for columns in tiles.columns():
            tile = tiles.tile(rows, columns)
            for axis, active in found.items():
                nearest = _nearest(tile, self.best, axis, rows, columns)
                hubs = self.hubs[axis]
                nearest *= hubs[columns] if axis == IMAGES else hubs[rows, None]
                active.append(nearest.amax(1 - axis))
        return {
            axis: torch.stack(active).amax(0) if axis == IMAGES else torch.cat(active)
            for axis, active in found.items()
        }


def _nearest(
    tile: torch.Tensor,
    best: tuple[torch.Tensor, torch.Tensor],
    axis: int,
    rows: slice,
    columns: slice,
) -> torch.Tensor:
    """1 where an item is a query's nearest, else 0, as float32: torch sums booleans more slowly."""
    level = best[0][rows, None] if axis == IMAGES else best[1][columns]
    return torch.eq(tile, level, out=torch.empty(tile.shape))


@dataclass(frozen=True, eq=False)
class _Normalised:
    """beta * scores, and a term of the item where the query is active."""

    beta: float
    queries: int
    active: torch.Tensor
    term: torch.Tensor

    def __call__(self, tile: torch.Tensor, rows: slice, columns: slice) -> torch.Tensor:
        result = tile * self.beta
        if self.queries == IMAGES:
            return result.addcmul_(self.active[rows, None], self.term[columns])
        return result.addcmul_(self.active[columns], self.term[rows, None])
