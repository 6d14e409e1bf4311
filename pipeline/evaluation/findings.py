"""What pages and plots show of the scores of a whole split, beside its metrics.

Hubs: in the true matching no caption is the nearest of more than one image, so items that many
queries find show errors without any labels (kNN-margin paper, section 3.5 and table 5). Separation:
how far the scores of true pairs lie from all others, whatever the ranks: the indicator S of the
dual-path paper (Zheng et al. 2020, eq. 10), the area under both P and Q, the distributions of the
scores of true and of other pairs; 0: separable, 1: the same. Best hits: the queries that galleries
show. `collect_findings` gives all of them; rank files keep them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.evaluation.criterion import (
    CAPTIONS,
    QUERIES,
    Criterion,
    Lines,
    largest_score,
    reduced,
    score_range,
)
from pipeline.evaluation.protocol import Evaluation
from pipeline.evaluation.ranks import Ranks, retrieval_ranks
from pipeline.evaluation.score_file import SplitScores
from pipeline.evaluation.scores import Reranked, Scores, as_scores, checked_scores
from pipeline.evaluation.truth import DIRECTIONS, Direction, Groups, group_codes, true_pairs
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import say

CLASSES = ("0", "1", "2 to 4", "5 to 9", "10 or more")  # of hubs; every item is in one
BINS = 100  # of width 0.02 for cosines
TOLERANCE = 1e-3  # cosines in float32 may lie a little outside of [-1, 1]
FAILURES = 6  # queries per gallery that do not find a true item first
SUCCESSES = 2  # queries per gallery that do
TOP = 5  # items per query of a gallery


@dataclass(frozen=True, eq=False)
class Hubness:
    """How unevenly the items of a gallery are retrieved.

    Attributes:
        counts: (items,) int64, of how many queries each item is the nearest.
    """

    counts: np.ndarray

    @property
    def table(self) -> dict[str, int]:
        """Items whose count is 0, 1, >= 2, >= 5 and >= 10 (kNN-margin paper, table 5)."""
        few = {str(count): int((self.counts == count).sum()) for count in (0, 1)}
        return few | {f">={count}": int((self.counts >= count).sum()) for count in (2, 5, 10)}

    @property
    def shares(self) -> list[float]:
        """Percent of the items whose count is in each of CLASSES."""
        none, one, two, five, ten = self.table.values()
        sizes = (none, one, two - five, five - ten, ten)
        return [100 * size / len(self.counts) for size in sizes]

    @property
    def figures(self) -> dict[str, float]:
        """Percent of the items that are the nearest of no query, and of ten or more."""
        return {"none": self.shares[0], "ten": self.shares[-1]}

    @property
    def skewness(self) -> float:
        """Third standardised moment, 0 when all items have the same (Radovanovic et al. 2010)."""
        deviations = self.counts - self.counts.mean()
        variance = float((deviations**2).mean())
        if self.counts.min() == self.counts.max():  # rounding must not make a skewness up
            return 0.0
        return float((deviations**3).mean()) / variance**1.5

    @property
    def largest(self) -> int:
        return int(self.counts.max())


def pairs_table(counts: np.ndarray, pairs: int) -> dict[str, int]:
    """The counts of the kNN-margin paper's table 5, which lists an image once per caption.

    Args:
        counts: (N,) of how many captions each image is the nearest. A caption finds the first of an
            image's copies, the others are the nearest of none.
        pairs: how many copies of images the paper's table would list.

    Returns:
        As `Hubness.table`.
    """
    return Hubness(counts).table | {"0": pairs - int(np.count_nonzero(counts))}


@dataclass(frozen=True)
class Separation:
    """Histograms of scores over equal bins.

    Attributes:
        low: end of the range, -1 for cosines, else the smallest score.
        high: the other end, 1 for cosines, else the largest score.
        true: (bins,) int64 numbers of true pairs.
        others: (bins,) int64 numbers of other pairs.
    """

    low: float
    high: float
    true: np.ndarray
    others: np.ndarray

    @property
    def densities(self) -> tuple[np.ndarray, np.ndarray]:
        """P and Q, (bins,) each, with area 1."""
        width = (self.high - self.low) / len(self.true)
        return self.true / self.true.sum() / width, self.others / self.others.sum() / width

    @property
    def overlap(self) -> float:
        """S, the integral of min(P, Q), 0 to 1; eq. 10 over the bins."""
        width = (self.high - self.low) / len(self.true)
        of_true, of_others = self.densities
        return float(np.minimum(of_true, of_others).sum() * width)


@dataclass(frozen=True, eq=False)
class TopResults:
    """The Q queries of one direction that galleries show, and what each found.

    Attributes:
        queries: (Q,) int64 numbers in corpus order: the hardest failures, then some successes.
        ranks: (Q,) int64, of the best true item, 1 is first.
        items: (Q, K + 1) int64 numbers of the first K items, then of the best true one.
        scores: (Q, K + 1) float32 scores of these.
        failed: how many of all queries of the direction do not find a true item first.
    """

    queries: np.ndarray
    ranks: np.ndarray
    items: np.ndarray
    scores: np.ndarray
    failed: int


@dataclass(frozen=True, eq=False)
class Findings:
    """What pages show of the scores of N images and M captions.

    Attributes:
        hubs: criterion -> by direction, of how many queries each item is the nearest: (M,) int64
            for i2t, (N,) for t2i.
        separation: None of reranked scores, which are of two models.
        hits: queries by direction.
        source: what the score file says it was made from, by name.
    """

    hubs: Mapping[str, Mapping[Direction, np.ndarray]]
    separation: Separation | None
    hits: Mapping[Direction, TopResults]
    source: Mapping[str, str]


def collect_findings(
    split: SplitScores,
    evaluation: Evaluation,
    criteria: Sequence[Criterion],
    source: Mapping[str, str | int | float],
) -> Findings:
    """All that pages show of the scores of a split, whatever the folds of its evaluation.

    Args:
        split: scores of N images and M captions.
        evaluation: of the split, naive among its criteria.
        criteria: for hubs; one that cannot rank all of the split at once is left out.
        source: attributes of the score file.

    Returns:
        Hubs, best hits, separation, and what they were made from.

    Raises:
        WorkbenchError: scores that are not finite.
    """
    scores = as_scores(split.scores)
    images, captions = group_codes(split.image_groups, split.caption_groups)
    if "_x" in evaluation.protocol:
        ranks = retrieval_ranks(scores, images, captions)
    else:
        naive = evaluation.measured["naive"]
        ranks = Ranks(naive["i2t"].ranks, naive["t2i"].ranks)
    hubs = {criterion.name: _hubs(scores, criterion) for criterion in criteria}
    is_reranked = isinstance(scores, Reranked)
    return Findings(
        hubs={name: counts for name, counts in hubs.items() if counts},
        separation=None if is_reranked else separation(scores, images, captions),
        hits={
            "i2t": _best_hits(scores, "i2t", images, captions, ranks.i2t),
            "t2i": _best_hits(scores, "t2i", captions, images, ranks.t2i),
        },
        source={name: str(value) for name, value in source.items() if name != "schema_version"},
    )


def _hubs(scores: Scores, criterion: Criterion) -> dict[Direction, np.ndarray]:
    """Counts by direction; none where the criterion cannot rank so many at once."""
    try:
        views = criterion.views(scores, DIRECTIONS)
    except WorkbenchError as error:
        say(f"no hubs under {criterion.name}: {error.message}")
        return {}
    return {way: occurrences(view, way) for way, view in zip(DIRECTIONS, views, strict=True)}


def occurrences(scores: np.ndarray | Scores, direction: Direction) -> np.ndarray:
    """Of how many queries each item is the nearest; of tied items the first counts.

    Args:
        scores: (N images, M captions) finite floats, larger is nearer.
        direction: whether images or captions are the queries.

    Returns:
        int64, (M,) for i2t, (N,) for t2i.

    Raises:
        WorkbenchError: NaN or infinity.
    """
    checked = as_scores(scores)
    largest_score(checked)
    items = 1 - QUERIES[direction]
    _, numbers = reduced(checked, [items], _nearest, _nearer)[items]
    return np.bincount(numbers, minlength=checked.shape[items])


def _nearest(tile: np.ndarray, items: int, rows: slice, columns: slice) -> Lines:
    """Scores and numbers of the nearest items, (Q,) each; of equal ones the first."""
    numbers = np.ascontiguousarray(tile if items == CAPTIONS else tile.T).argmax(1)
    values = np.take_along_axis(tile, np.expand_dims(numbers, items), items).squeeze(items)
    return values, numbers + (columns if items == CAPTIONS else rows).start


def _nearer(earlier: Lines, later: Lines) -> Lines:
    is_later = later[0] > earlier[0]
    return np.where(is_later, later[0], earlier[0]), np.where(is_later, later[1], earlier[1])


def separation(
    scores: np.ndarray | Scores, image_groups: Groups, caption_groups: Groups, bins: int = BINS
) -> Separation:
    """Count the scores of true pairs and of others.

    Args:
        scores: (N, M) finite floats.
        image_groups: (N,) integers or strings. An image and a caption are a true pair when their
            groups are equal.
        caption_groups: (M,) integers or strings.
        bins: how many, of equal width.

    Returns:
        Counts by bin.

    Raises:
        WorkbenchError: scores of another shape or not finite, queries without a true item, and no
            other pairs.
    """
    images, captions = group_codes(image_groups, caption_groups)
    checked = checked_scores(scores, len(images), len(captions))
    low, high = _histogram_range(checked)
    image, caption = true_pairs(images, captions)

    def counts(values: np.ndarray) -> np.ndarray:
        clipped = np.clip(values.astype(np.float64).ravel(), low, high)
        return np.histogram(clipped, bins, (low, high))[0]

    def of_run(rows: slice) -> np.ndarray:
        """Numbers of true pairs and of all pairs of some images, by their scores: (2, bins)."""
        found = np.zeros((2, bins), np.int64)
        first, last = np.searchsorted(image, (rows.start, rows.stop))
        of_images = image[first:last]
        of_captions = caption[first:last]
        for columns in checked.columns():
            tile = checked.tile(rows, columns)
            inside = (of_captions >= columns.start) & (of_captions < columns.stop)
            true = tile[of_images[inside] - rows.start, of_captions[inside] - columns.start]
            found += [counts(true), counts(tile)]
        return found

    true, every = sum(checked.map_runs(of_run), np.zeros((2, bins), np.int64))
    if not (every - true).any():
        raise WorkbenchError(
            "every image belongs to every caption: there are no other pairs to separate from",
            "compare models on a split with at least two images, or persons",
        )
    return Separation(low, high, true, every - true)


def _histogram_range(scores: Scores) -> tuple[float, float]:
    """-1 and 1 of cosines, else the smallest and the largest score."""
    if scores.bound() <= 1 + TOLERANCE:
        return -1.0, 1.0
    low, high = score_range(scores)
    if low >= -1 - TOLERANCE and high <= 1 + TOLERANCE:
        return -1.0, 1.0
    return low, high if high > low else low + 1


def _best_hits(
    scores: Scores, way: Direction, queries: np.ndarray, items: np.ndarray, ranks: np.ndarray
) -> TopResults:
    """Of one direction; of equal scores the false item comes first, as in the ranks. queries (Q,)
    and items (J,): group numbers; ranks: (Q,)."""
    axis = QUERIES[way]
    ranking = scores.for_queries(axis)
    chosen = np.array([*hardest(ranks, queries), *successful(ranks)])
    best = np.empty((len(chosen), min(TOP, len(items)) + 1), np.int64)
    values = np.empty(best.shape, np.float32)
    for row, query in enumerate(chosen.tolist()):
        is_true = items == queries[query]
        order = np.lexsort((is_true, -ranking.line(axis, query)))
        best[row] = [*order[: best.shape[1] - 1], order[np.argmax(is_true[order])]]
        values[row] = scores.line(axis, query)[best[row]]
    return TopResults(
        queries=chosen,
        ranks=ranks[chosen],
        items=best,
        scores=values,
        failed=int((ranks > 1).sum()),
    )


def hardest(ranks: np.ndarray, groups: np.ndarray) -> list[int]:
    """FAILURES queries that are not ranked first, largest rank first, one of each group.

    Args:
        ranks: (Q,) of the best true items, from 1.
        groups: (Q,) group numbers.

    Returns:
        Their numbers.
    """
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
