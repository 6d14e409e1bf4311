"""Dynamic inverted softmax (Bogolin et al. 2022): only queries drawn to a hub are normalised."""

from collections.abc import Sequence
from functools import partial

import torch

from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.reductions import (
    IMAGES,
    Lines,
    log_sum_exp,
    maximum,
    nearest_means,
    reduced,
    slow_log_softmax,
)
from pipeline.scores.tiles import Rescored, Tiles

SINGLE_QUERY = True


def views(scores: Tiles, queries: Sequence[int], settings: Criterion) -> list[Tiles]:
    """The scores (N, M) to rank by, for each axis of queries: log of exp(beta s) / sum over queries
    of exp(beta s) where a query's nearest item is a hub, else beta s. A hub is the nearest item of
    two queries; of tied nearest items each counts."""
    best = nearest_means(scores, 1)
    counts = reduced(scores, queries, partial(_nearest_counts, best), _added)
    hubs = {axis: (count >= 2).float() for axis, (count,) in counts.items()}
    reaching = partial(_reaching, best, hubs)
    active = reduced(scores, [1 - axis for axis in queries], reaching, maximum)
    sums = log_sum_exp(scores, queries, settings.beta)
    return [
        Rescored(scores, partial(_normalised, settings.beta, axis, active[1 - axis][0], -total))
        for total, axis in zip(sums, queries, strict=True)
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


def _added(earlier: Lines, later: Lines) -> Lines:
    return (earlier[0] + later[0],)


def _nearest_counts(
    best: Lines, tile: torch.Tensor, queries: int, rows: slice, columns: slice
) -> Lines:
    """Of how many queries each item is the nearest, or one of the tied nearest."""
    return (_nearest(tile, best, queries, rows, columns).sum(queries),)


def _reaching(
    best: Lines,
    hubs: dict[int, torch.Tensor],
    tile: torch.Tensor,
    items: int,
    rows: slice,
    columns: slice,
) -> Lines:
    """1 for queries whose nearest item is a hub (1 in `hubs`, one number per item), else 0."""
    queries = 1 - items
    nearest = _nearest(tile, best, queries, rows, columns)
    nearest *= hubs[queries][columns] if queries == IMAGES else hubs[queries][rows, None]
    return (nearest.amax(items),)


def _nearest(
    tile: torch.Tensor, best: Lines, queries: int, rows: slice, columns: slice
) -> torch.Tensor:
    """1 where an item is a query's nearest, else 0, as float32: torch sums booleans more slowly."""
    level = best[0][rows, None] if queries == IMAGES else best[1][columns]
    return torch.eq(tile, level, out=torch.empty(tile.shape))


def _normalised(
    beta: float,
    queries: int,
    active: torch.Tensor,
    term: torch.Tensor,
    tile: torch.Tensor,
    rows: slice,
    columns: slice,
) -> torch.Tensor:
    """beta * scores, and a term of the item where the query is active."""
    result = tile * beta
    if queries == IMAGES:
        return result.addcmul_(active[rows, None], term[columns])
    return result.addcmul_(active[columns], term[rows, None])
