"""Who leads, by how much, and whether other test images could turn it around (`vse compare`)."""

from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.evaluation.bootstrap import limits, resampled
from pipeline.evaluation.comparison import Result, TableRow, described, groups_of, shown
from pipeline.evaluation.figures import RECALLS
from pipeline.evaluation.paired import RESAMPLES, ROUNDING, Difference, measured_folds
from pipeline.evaluation.rank_file import METRICS, read_query_ranks


def behind_first(results: Sequence[Result]) -> dict[str, Difference]:
    """By the label of each row but the first of `groups_of`: the first row's rsum less its own."""
    ranks = {result.name: result.ranks for result in results}
    recalls = [metric for metric in METRICS if metric.name in RECALLS]

    def drawn(row: TableRow) -> np.ndarray:
        folds = measured_folds(read_query_ranks(ranks[row.model], row.criterion))
        return resampled(folds, RESAMPLES, 0, recalls)[-1:]

    behind = {}
    for first, *others in groups_of(results):
        best = drawn(first)
        for row in others:
            gaps = (best - drawn(row)).round(ROUNDING)
            low, high = limits(gaps, results[0].record.confidence)
            behind[row.label] = Difference(
                figure="rsum",
                a=row.figures["rsum"],
                b=first.figures["rsum"],
                low=float(low[0]),
                high=float(high[0]),
            )
    return behind


def verdict(results: Sequence[Result], behind: Mapping[str, Difference]) -> str:
    """One sentence: "scan leads vse by 2.5 points of rsum [-0.5, 5.0]: within noise".

    Args:
        results: of all models.
        behind: as `behind_first`.

    Returns:
        The sentence, without a full stop.
    """
    first, *others = groups_of(results)[0]
    if not others:
        return f"{first.label} reaches an rsum of {shown(first.figures['rsum'])}"
    lead = behind[others[0].label]
    noise = "more than noise" if lead.better else "within noise"
    gap, _, ends = lead.amount.partition(" ")
    return f"{first.label} leads {others[0].label} by {gap} points of rsum {ends}: {noise}"


def report(
    results: Sequence[Result], behind: Mapping[str, Difference], dataset: str, loss: str
) -> str:
    """The comparison as markdown that is aligned for reading on a terminal, too.

    Args:
        results: of all models.
        behind: as `behind_first`.
        dataset: its name, for the text.
        loss: name of the ranking loss, for the text.

    Returns:
        Markdown.
    """
    about = described(results, f"{dataset}, ranking loss {loss}", behind)
    lines = ["# Comparison of models", "", f"{verdict(results, behind)}.", "", *about]
    return "\n".join(lines) + "\n"
