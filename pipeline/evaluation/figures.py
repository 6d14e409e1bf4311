"""What retrieval metrics make of a set of queries: the figures of both directions."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

from pipeline.evaluation.metrics import FILES
from pipeline.evaluation.metrics.recall import recall
from pipeline.evaluation.row import Better, Metric, beyond
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import fingerprint
from pipeline.scores.groups import Groups, group_codes
from pipeline.scores.positives import Relevance
from pipeline.scores.ranking import DIRECTIONS, Direction

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
            if (other := owners.setdefault(row.name, file)) != file:
                raise WorkbenchError(
                    f"metric {row.name!r}: {FILES.module(other)} and {FILES.module(file)} both "
                    "claim the name: rename one"
                )
            rows.append(row)
    return tuple(sorted(rows, key=lambda row: row.place))


def plain_rows(recall_k: Iterable[int] = ()) -> tuple[Metric, ...]:
    """All but the extended rows, and those of R@K for more K."""
    rows = {row.name: row for row in all_rows() if not row.extended}
    rows |= {row.name: row for row in map(recall, set(recall_k)) if row.name not in rows}
    return tuple(sorted(rows.values(), key=lambda row: row.place))


def extended_rows() -> tuple[Metric, ...]:
    """What extended positives are measured with: metrics of many true items and of grades, too."""
    return (*plain_rows(), *(row for row in all_rows() if row.extended))


@dataclass(frozen=True, eq=False)
class Measured:
    """What the Q queries of one direction reach: the rank of the best true item, (Q,) int64 from 1,
    and by name of a metric its values, (Q,) float64."""

    ranks: np.ndarray
    values: Mapping[str, np.ndarray]

    def of(self, queries: np.ndarray) -> "Measured":
        """The same of some queries, by their numbers."""
        values = {name: numbers[queries] for name, numbers in self.values.items()}
        return Measured(self.ranks[queries], values)


def joined(parts: Sequence[Measured]) -> Measured:
    """What the queries of all parts reach, one part after the other."""
    return Measured(
        np.concatenate([part.ranks for part in parts]),
        {name: np.concatenate([part.values[name] for part in parts]) for name in parts[0].values},
    )


@dataclass(frozen=True)
class Column:
    """A figure of a summary: a metric in one direction, or rsum."""

    keys: tuple[str, ...]  # where a summary has it, such as ("i2t", "r1") or ("rsum",)
    title: str  # "R@1", "rsum"
    better: Better  # whether larger or smaller figures are

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
    """The figures of a summary in the order of the columns: i2t, t2i, rsum."""
    return [column.of(summary) for column in columns_of(metrics or plain_rows())]


def summary_of(values: Sequence[T], metrics: Sequence[Metric] | None = None) -> dict[str, Any]:
    """A summary of figures in the order of the columns: {"i2t": {"r1", ...}, "t2i", "rsum"}."""
    names = [metric.name for metric in metrics or plain_rows()]
    count = len(names)
    ways: dict[str, Any] = {
        way: dict(zip(names, values[n * count : (n + 1) * count], strict=True))
        for n, way in enumerate(DIRECTIONS)
    }
    return {**ways, "rsum": values[-1]}


def summarise(
    measured: Mapping[Direction, Measured], metrics: Sequence[Metric] | None = None
) -> dict[str, Any]:
    """A figure of every metric: {"i2t": {"r1", "r5", "r10", "medr", ...}, "t2i": {...}, "rsum"}."""
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
    """What uniformly random rankings are expected to reach; groups: (N,) and (M,)."""
    images, captions = group_codes(image_groups, caption_groups)
    size = int(max(images.max(), captions.max())) + 1
    true = {
        "i2t": np.bincount(captions, None, size)[images],
        "t2i": np.bincount(images, None, size)[captions],
    }
    items = {"i2t": len(captions), "t2i": len(images)}
    return _summary(
        lambda way, metric: metric.chance(true[way], items[way]), metrics or plain_rows()
    )


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
    size = int(max(images.max(), captions.max())) + 1
    sizes = np.bincount(images, None, size), np.bincount(captions, None, size)
    variance = 0.0
    for queries, true in (sizes, sizes[::-1]):
        deviations = np.zeros(size)
        for number in np.unique(true):
            deviations[true == number] = _rsum_deviation(number, int(true.sum()))
        variance += float(np.square(queries * deviations).sum() / queries.sum() ** 2)
    return math.sqrt(variance)


def _rsum_deviation(true: int, items: int) -> float:
    """Standard deviation of the sum of the recalls of one query with so many true items."""
    within = 1 - beyond(np.array([true]), items)
    found = [within[min(int(name.removeprefix("r")), items)] for name in RECALLS]
    # who is among the first five is among the first ten: of two recalls the smaller is the product
    squares = sum(min(one, other) for one in found for other in found)
    return 100 * math.sqrt(max(squares - sum(found) ** 2, 0.0))


def extended_chance(relevance: Relevance) -> dict[str, Any]:
    """The same by extended positives, for the queries that have any in their direction."""
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
