"""Dynamic inverted softmax (Bogolin et al. 2022): only queries drawn to a hub are normalised."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.reductions import (
    IMAGES,
    Lines,
    best_scores,
    log_sum_exp,
    maximum,
    reduced,
    slow_log_softmax,
)
from pipeline.scores.tiles import Rescored, Tiles

SINGLE_QUERY = True


def views(scores: Tiles, queries: Sequence[int], settings: Criterion) -> list[Tiles]:
    """The scores (N, M) to rank by, for each axis of queries: log of exp(beta s) / sum over queries
    of exp(beta s) where a query's nearest item is a hub, else beta s. A hub is the nearest item of
    two queries; of tied nearest items each counts."""
    best = best_scores(scores)
    counts = reduced(scores, queries, _NearestCounts(best), _added)
    hubs = {axis: (count >= 2).float() for axis, (count,) in counts.items()}
    active = reduced(scores, [1 - axis for axis in queries], _Reaching(best, hubs), maximum)
    sums = log_sum_exp(scores, queries, settings.beta)
    return [
        Rescored(scores, _Normalised(settings.beta, axis, active[1 - axis][0], -own))
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


def _added(one: Lines, other: Lines) -> Lines:
    return (one[0] + other[0],)


@dataclass(frozen=True, eq=False)
class _NearestCounts:
    """Of how many queries each item is the nearest, or one of the tied nearest."""

    best: tuple[torch.Tensor, torch.Tensor]

    def __call__(self, tile: torch.Tensor, queries: int, rows: slice, columns: slice) -> Lines:
        return (_nearest(tile, self.best, queries, rows, columns).sum(queries),)


@dataclass(frozen=True, eq=False)
class _Reaching:
    """1 for queries whose nearest item is a hub (1 in `hubs`, one number per item), else 0."""

    best: tuple[torch.Tensor, torch.Tensor]
    hubs: dict[int, torch.Tensor]

    def __call__(self, tile: torch.Tensor, items: int, rows: slice, columns: slice) -> Lines:
        queries = 1 - items
        nearest = _nearest(tile, self.best, queries, rows, columns)
        hubs = self.hubs[queries]
        nearest *= hubs[columns] if queries == IMAGES else hubs[rows, None]
        return (nearest.amax(items),)


def _nearest(
    tile: torch.Tensor,
    best: tuple[torch.Tensor, torch.Tensor],
    queries: int,
    rows: slice,
    columns: slice,
) -> torch.Tensor:
    """1 where an item is a query's nearest, else 0, as float32: torch sums booleans more slowly."""
    level = best[0][rows, None] if queries == IMAGES else best[1][columns]
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
