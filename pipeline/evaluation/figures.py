"""What retrieval metrics make of scores: numbers of every query, and figures of both directions.

`measure` gives the numbers, `summarise` the figures, `chance_level` those of random rankings.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

from pipeline.evaluation.metrics import FILES, Better, Metric, survival_function
from pipeline.evaluation.metrics.recall import recall
from pipeline.evaluation.ranks import RankRequest, ranked, request_of_groups
from pipeline.evaluation.scores import Scores, checked_scores
from pipeline.evaluation.truth import DIRECTIONS, Direction, Groups, Ranking, Relevance, group_codes
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import fingerprint

RECALLS = ("r1", "r5", "r10")  # rsum is their sum, whatever other metrics there are

DECIMALS = 4

T = TypeVar("T")


@cache
def all_rows() -> tuple[Metric, ...]:
    """The rows of all files by their places, imported on the first call; names must differ."""
    owners: dict[str, str] = {}
    rows: list[Metric] = []
    for file in FILES:
        for row in FILES.load(file):
            other = owners.setdefault(row.name, file)
            if other != file:
                raise WorkbenchError(
                    f"metric {row.name!r}: {FILES.module(other)} and {FILES.module(file)} both "
                    "claim the name: rename one"
                )
            rows.append(row)
    return tuple(sorted(rows, key=lambda row: row.place))


def plain_rows(recall_k: Iterable[int] = ()) -> tuple[Metric, ...]:
    """All but the extended rows, and those of R@K for more K (recall_k)."""
    rows = {row.name: row for row in all_rows() if not row.extended}
    rows |= {row.name: row for row in map(recall, set(recall_k)) if row.name not in rows}
    return tuple(sorted(rows.values(), key=lambda row: row.place))


def extended_rows() -> tuple[Metric, ...]:
    """What extended positives are measured with: metrics of many true items and of grades, too."""
    return (*plain_rows(), *(row for row in all_rows() if row.extended))


@dataclass(frozen=True, eq=False)
class Measured:
    """What the Q queries of one direction reach.

    Attributes:
        ranks: (Q,) int64, of the best true item, from 1.
        values: by name of a metric (Q,) float64.
    """

    ranks: np.ndarray
    values: Mapping[str, np.ndarray]

    def of(self, queries: np.ndarray) -> "Measured":
        """What some queries reach, by their numbers."""
        values = {name: numbers[queries] for name, numbers in self.values.items()}
        return Measured(self.ranks[queries], values)


def concatenated(parts: Sequence[Measured]) -> Measured:
    """What the queries of all parts reach, one part after the other."""
    return Measured(
        np.concatenate([part.ranks for part in parts]),
        {name: np.concatenate([part.values[name] for part in parts]) for name in parts[0].values},
    )


def measure(
    scores: np.ndarray | Scores,
    image_groups: Groups,
    caption_groups: Groups,
    metrics: Sequence[Metric] | None = None,
) -> dict[Direction, Measured]:
    """Metrics of all queries, by direction.

    Args:
        scores: (N images, M captions) floats, larger is better.
        image_groups: (N,) integers or strings. An image and a caption belong together when their
            groups are equal.
        caption_groups: (M,) integers or strings.
        metrics: None for all but the extended.

    Returns:
        By direction what each query reaches.

    Raises:
        WorkbenchError: as pipeline.evaluation.ranks.retrieval_ranks.
    """
    images, captions = group_codes(image_groups, caption_groups)
    checked = checked_scores(scores, len(images), len(captions))
    requests = [request_of_groups(checked, images, captions, way) for way in DIRECTIONS]
    return dict(zip(DIRECTIONS, measured_of(requests, metrics), strict=True))


def measured_of(
    requests: Sequence[RankRequest], metrics: Sequence[Metric] | None = None
) -> list[Measured]:
    """The metrics of the queries of each request, their scores gone through together.

    Args:
        requests: those with grades are measured by all metrics.
        metrics: of those without grades, None for all but the extended.

    Returns:
        What the queries of each request reach, in the order of the requests.

    Raises:
        WorkbenchError: NaN or infinity, naming one score.
    """
    plain = metrics or plain_rows()
    return [
        _measured(ranking, plain if request.grade is None else extended_rows())
        for ranking, request in zip(ranked(requests), requests, strict=True)
    ]


def _measured(ranking: Ranking, metrics: Sequence[Metric]) -> Measured:
    values = {metric.name: metric.measured(ranking) for metric in metrics}
    return Measured(ranking.ranks[:, 0].astype(np.int64), values)


@dataclass(frozen=True)
class Column:
    """A figure of a summary: a metric in one direction, or rsum.

    Attributes:
        keys: where a summary has it, such as ("i2t", "r1") or ("rsum",).
        title: heading, such as "R@1" or "rsum".
        better: whether larger or smaller figures are.
    """

    keys: tuple[str, ...]
    title: str
    better: Better

    @property
    def label(self) -> str:
        """Direction and title: "i2t R@1", "rsum"."""
        return " ".join([*self.keys[:-1], self.title])

    def of(self, summary: Any) -> Any:
        """The figure in a summary; LookupError or TypeError where it is none."""
        for key in self.keys:
            summary = summary[key]
        return summary


def columns_of(metrics: Sequence[Metric]) -> tuple[Column, ...]:
    """The figures that metrics give: of i2t, of t2i, and rsum."""
    ways = (Column((way, m.name), m.title, m.better) for way in DIRECTIONS for m in metrics)
    return (*ways, Column(("rsum",), "rsum", "larger"))


def values_of(summary: Mapping[str, Any], metrics: Sequence[Metric] | None = None) -> list[Any]:
    """The figures of a summary in the order of the columns: i2t, t2i, rsum.

    Args:
        summary: as `summarise` gives.
        metrics: that it has, None for all but the extended.

    Returns:
        Numbers.
    """
    return [column.of(summary) for column in columns_of(metrics or plain_rows())]


def summary_of(values: Sequence[T], metrics: Sequence[Metric] | None = None) -> dict[str, Any]:
    """A summary of figures: {"i2t": {"r1", ...}, "t2i": {"r1", ...}, "rsum"}.

    Args:
        values: in the order of the columns: i2t, t2i, rsum.
        metrics: that they are of, None for all but the extended.

    Returns:
        The summary.
    """
    names = [metric.name for metric in metrics or plain_rows()]
    of_images = values[: len(names)]
    of_captions = values[len(names) : -1]
    return {
        "i2t": dict(zip(names, of_images, strict=True)),
        "t2i": dict(zip(names, of_captions, strict=True)),
        "rsum": values[-1],
    }


def summarise(
    measured: Mapping[Direction, Measured], metrics: Sequence[Metric] | None = None
) -> dict[str, Any]:
    """A figure of every metric: {"i2t": {"r1", "r5", "r10", "medr", ...}, "t2i": {...}, "rsum"}.

    Args:
        measured: what the queries of each direction reach.
        metrics: that figures are wanted of, None for all but the extended.

    Returns:
        The summary.
    """
    return _summary(
        lambda way, metric: metric.figure(measured[way].values[metric.name]),
        metrics or plain_rows(),
    )


def _summary(
    figure: Callable[[Direction, Metric], float], metrics: Sequence[Metric]
) -> dict[str, Any]:
    ways: dict[str, Any] = {
        way: {metric.name: figure(way, metric) for metric in metrics} for way in DIRECTIONS
    }
    return ways | {"rsum": sum(ways[way][name] for way in DIRECTIONS for name in RECALLS)}


def average(summaries: Sequence[Any]) -> Any:
    """Mean of every figure over the folds' summaries."""
    if isinstance(summaries[0], Mapping):
        return {name: average([figures[name] for figures in summaries]) for name in summaries[0]}
    return float(np.mean(summaries))


def rounded(figures: Any) -> Any:
    """Figures in nested dicts and lists with the decimals that are written to files."""
    if isinstance(figures, dict):
        return {name: rounded(value) for name, value in figures.items()}
    if isinstance(figures, list):
        return [rounded(value) for value in figures]
    return round(figures, DECIMALS)


def chance_level(
    image_groups: Groups, caption_groups: Groups, metrics: Sequence[Metric] | None = None
) -> dict[str, Any]:
    """What uniformly random rankings are expected to reach.

    Args:
        image_groups: (N,) the group of each image.
        caption_groups: (M,) that of each caption.
        metrics: that figures are wanted of, None for all but the extended.

    Returns:
        As `summarise`.
    """
    images, captions = group_codes(image_groups, caption_groups)
    image_counts, caption_counts = _group_sizes(images, captions)
    true = {"i2t": caption_counts[images], "t2i": image_counts[captions]}
    items = {"i2t": len(captions), "t2i": len(images)}
    return _summary(
        lambda way, metric: metric.chance(true[way], items[way]), metrics or plain_rows()
    )


def _group_sizes(images: np.ndarray, captions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many images and how many captions each group has: (G,) each."""
    count = int(max(images.max(), captions.max())) + 1
    return np.bincount(images, None, count), np.bincount(captions, None, count)


def chance_deviation(image_groups: Groups, caption_groups: Groups) -> float:
    """The standard deviation of rsum when rankings are uniformly random.

    Queries of a group count as one, as if all of them were ranked alike; both directions as
    independent. Under other ties between rankings it is an estimate.

    Args:
        image_groups: (N,) the group of each image.
        caption_groups: (M,) that of each caption.

    Returns:
        In points of rsum, 0 or more.
    """
    images, captions = group_codes(image_groups, caption_groups)
    sizes = _group_sizes(images, captions)
    variance = 0.0
    for queries, true in (sizes, sizes[::-1]):
        deviations = np.zeros(len(true))
        for number in np.unique(true):
            deviations[true == number] = _rsum_deviation(number, int(true.sum()))
        variance += float(np.square(queries * deviations).sum() / queries.sum() ** 2)
    return math.sqrt(variance)


def _rsum_deviation(true: int, items: int) -> float:
    """Standard deviation of the sum of the recalls of one query with so many true items."""
    within = 1 - survival_function(np.array([true]), items)
    found = [within[min(int(name.removeprefix("r")), items)] for name in RECALLS]
    # who is among the first five is among the first ten: of two recalls the smaller is the product
    squares = sum(min(one, other) for one in found for other in found)
    return 100 * math.sqrt(max(squares - sum(found) ** 2, 0.0))


def extended_chance(relevance: Relevance) -> dict[str, Any]:
    """Expected figures of random rankings by extended positives, of the queries that have any."""
    positives = {way: relevance.positives(way) for way in DIRECTIONS}
    grades = {way: pairs.sorted_grades() for way, pairs in positives.items()}
    counts = {way: np.count_nonzero(values, axis=1) for way, values in grades.items()}
    return _summary(
        lambda way, metric: metric.chance(
            (grades if metric.graded else counts)[way], positives[way].size[1]
        ),
        extended_rows(),
    )


def metrics_digest(content: Mapping[str, Any]) -> str:
    """SHA-256 hex over the content of a metrics file, by which its rank file knows it."""
    return fingerprint(metrics=content)
