"""Dynamic inverted softmax (Bogolin et al. 2022): only queries drawn to a hub are normalised."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.evaluation.criterion import (
    CAPTIONS,
    IMAGES,
    Criterion,
    Lines,
    log_sum_exp,
    reduced,
    slow_log_softmax,
)
from pipeline.evaluation.ranks import COUNT
from pipeline.evaluation.scores import Rescored, Scores

SINGLE_QUERY = True


def views(scores: Scores, queries: Sequence[int], settings: Criterion) -> list[Scores]:
    """log of exp(beta s) / sum over queries of exp(beta s) where a query's nearest item is a hub,
    else beta s. A hub is the nearest item of two queries; of tied nearest items each counts.

    Args:
        scores: (N, M) of a model.
        queries: axes of the queries, IMAGES or CAPTIONS.
        settings: beta is used.

    Returns:
        The scores (N, M) to rank by, for each axis of queries.
    """

    def highest(tile: np.ndarray, items: int, rows: slice, columns: slice) -> Lines:
        """The highest score of each query: (n,) or (m,)."""
        return (tile.max(items),)

    def higher(earlier: Lines, later: Lines) -> Lines:
        return (np.maximum(earlier[0], later[0]),)

    items_of = [1 - axis for axis in queries]
    best = reduced(scores, items_of, highest, higher)

    def nearest(tile: np.ndarray, axis: int, rows: slice, columns: slice) -> np.ndarray:
        """Whether an item is the nearest of a query, or one of its tied nearest: (n, m)."""
        levels = best[1 - axis][0]
        return np.equal(tile, levels[rows, None] if axis == IMAGES else levels[columns])

    def query_counts(tile: np.ndarray, axis: int, rows: slice, columns: slice) -> Lines:
        """Of how many queries each item is the nearest: (n,) or (m,)."""
        return (nearest(tile, axis, rows, columns).sum(axis, dtype=COUNT).astype(np.int64),)

    def added(earlier: Lines, later: Lines) -> Lines:
        return (earlier[0] + later[0],)

    counts = reduced(scores, queries, query_counts, added)

    def reaches_hub(tile: np.ndarray, items: int, rows: slice, columns: slice) -> Lines:
        """Whether a hub is the nearest item of each query: (n,) or (m,)."""
        is_hub = counts[1 - items][0] >= 2
        at_hub = is_hub[columns] if items == CAPTIONS else is_hub[rows, None]
        reaching = nearest(tile, 1 - items, rows, columns) & at_hub
        return (np.asarray(reaching.any(items)),)

    def any_of(earlier: Lines, later: Lines) -> Lines:
        return (np.logical_or(earlier[0], later[0]),)

    active = reduced(scores, items_of, reaches_hub, any_of)
    sums = log_sum_exp(scores, queries, settings.beta)
    return [
        Rescored(scores, _Normalised(settings.beta, axis, active[1 - axis][0], -total))
        for axis, total in zip(queries, sums, strict=True)
    ]


def reference(s: list[list[float]], settings: Criterion) -> list[list[float]]:
    """Scores with each query's bank of all others, from loops, for the tests.

    Args:
        s: scores, queries in rows.
        settings: beta is read.

    Returns:
        Scores of the same form.
    """

    def nearest(row: list[float]) -> set[int]:
        return {item for item, score in enumerate(row) if score == max(row)}

    rows = slow_log_softmax(s, settings.beta)
    for query, row in enumerate(s):
        bank = s[:query] + s[query + 1 :]
        if not nearest(row) & set().union(*map(nearest, bank)):
            rows[query] = [settings.beta * score for score in row]
    return rows


@dataclass(frozen=True, eq=False)
class _Normalised:
    """beta * scores, and a term of the item where the query is active. queries: their axis; active:
    (Q,) booleans; terms: (J,) float32 of the items."""

    beta: float
    queries: int
    active: np.ndarray
    terms: np.ndarray

    def __call__(self, tile: np.ndarray, rows: slice, columns: slice) -> np.ndarray:
        result = tile * self.beta
        if self.queries == IMAGES:
            np.add(result, self.terms[columns], out=result, where=self.active[rows, None])
        else:
            np.add(result, self.terms[rows, None], out=result, where=self.active[columns])
        return result
