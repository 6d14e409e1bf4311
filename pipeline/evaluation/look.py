"""One pass over the scores of a whole split for all that pages show of them."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.findings import BestHits, Findings
from pipeline.evaluation.folds import Evaluation
from pipeline.evaluation.reductions import CAPTIONS, QUERIES, Lines, largest_score, reduced
from pipeline.evaluation.separation import separation
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import say
from pipeline.scores.file import SplitScores
from pipeline.scores.groups import group_codes
from pipeline.scores.ranking import DIRECTIONS, Direction
from pipeline.scores.ranks import Ranks, retrieval_ranks
from pipeline.scores.rerank import Reranked
from pipeline.scores.tiles import Tiles, as_tiles

FAILURES = 6  # queries per gallery
SUCCESSES = 2
TOP = 5  # items per query


def look(
    split: SplitScores,
    evaluation: Evaluation,
    criteria: Sequence[Criterion],
    source: Mapping[str, str | int | float],
) -> Findings:
    """Hubs under every criterion that can rank all of the split at once, whatever the folds;
    separation; the queries that galleries show. source: attributes of the score file."""
    tiles, groups = as_tiles(split.scores), (split.image_groups, split.caption_groups)
    if "_x" in evaluation.protocol:
        ranks = retrieval_ranks(tiles, *groups)
    else:
        ranks = Ranks(*(evaluation.measured["naive"][way].ranks for way in DIRECTIONS))
    images, captions = group_codes(*groups)
    hubs = {criterion.name: _hubs(tiles, criterion) for criterion in criteria}
    return Findings(
        hubs={name: counts for name, counts in hubs.items() if counts},
        separation=None if isinstance(tiles, Reranked) else separation(tiles, *groups),
        hits={
            "i2t": _hits(tiles, "i2t", images, captions, ranks.i2t),
            "t2i": _hits(tiles, "t2i", captions, images, ranks.t2i),
        },
        source={name: str(value) for name, value in source.items() if name != "schema_version"},
    )


def hardest(ranks: np.ndarray, groups: np.ndarray) -> list[int]:
    """FAILURES queries (Q,) not ranked first, largest rank first, one of each group."""
    chosen: dict[int, int] = {}
    for query in np.argsort(-ranks, kind="stable").tolist():
        if ranks[query] == 1 or len(chosen) == FAILURES:
            break
        chosen.setdefault(int(groups[query]), query)
    return list(chosen.values())


def successful(ranks: np.ndarray) -> list[int]:
    """SUCCESSES queries ranked first, evenly spaced among all of them: not picked by hand."""
    queries = np.flatnonzero(ranks == 1)
    if len(queries) <= SUCCESSES:
        return [int(query) for query in queries]
    steps = np.linspace(0, len(queries) - 1, SUCCESSES + 2)[1:-1]
    return [int(query) for query in np.unique(queries[steps.astype(int)])]


def _hubs(scores: Tiles, criterion: Criterion) -> dict[Direction, np.ndarray]:
    """Counts by direction; none where the criterion cannot rank so many at once."""
    try:
        views = criterion.views(scores, DIRECTIONS)
    except WorkbenchError as error:
        say(f"no hubs under {criterion.name}: {error.message}")
        return {}
    return {way: occurrences(view, way) for way, view in zip(DIRECTIONS, views, strict=True)}


def _hits(
    tiles: Tiles, way: Direction, queries: np.ndarray, items: np.ndarray, ranks: np.ndarray
) -> BestHits:
    """Of one direction; of equal scores the false item comes first, as in the ranks. queries (Q,)
    and items (J,): group numbers; ranks: (Q,)."""
    axis = QUERIES[way]
    ranking = tiles.for_queries(axis)
    chosen = np.array([*hardest(ranks, queries), *successful(ranks)])
    best = np.empty((len(chosen), min(TOP, len(items)) + 1), np.int64)
    scores = np.empty(best.shape, np.float32)
    for row, query in enumerate(chosen.tolist()):
        line, true = ranking.line(axis, query), items == queries[query]
        order = np.lexsort((true, -line))
        best[row] = [*order[: best.shape[1] - 1], order[np.argmax(true[order])]]
        scores[row] = tiles.line(axis, query)[best[row]]
    return BestHits(chosen, ranks[chosen], best, scores, int((ranks > 1).sum()))


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


def _nearer(earlier: Lines, later: Lines) -> Lines:
    values, numbers = zip(earlier, later, strict=True)
    is_later = values[1] > values[0]
    return tuple(torch.where(is_later, *pair[::-1]) for pair in (values, numbers))
