"""Who leads, by how much, and whether other test images could turn it around (`vse compare`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pipeline.evaluation.bootstrap import limits, resampled
from pipeline.evaluation.comparison import NAIVE, Result, TableRow, described, groups_of, shown
from pipeline.evaluation.figures import RECALLS
from pipeline.evaluation.paired import RESAMPLES, ROUNDING, Difference, measured_folds
from pipeline.evaluation.rank_file import METRICS, read_query_ranks


def behind_first(results: Sequence[Result]) -> dict[str, Difference]:
    """By the label of each row but the first of `groups_of`: the first row's rsum less its own."""
    ranks = {result.name: result.ranks for result in results}
    behind = {}
    for first, *others in groups_of(results):
        best = drawn_rsums(ranks[first.model], first.criterion)
        for row in others:
            gaps = best - drawn_rsums(ranks[row.model], row.criterion)
            behind[row.label] = gap(row, first, gaps, results[0].record.confidence)
    return behind


def gains_of_training(results: Sequence[Result]) -> list[str]:
    """A sentence for each model that began as another one of the results, as an adapter begins as
    zero-shot retrieval: by how much the training has put it ahead."""
    rows = {row.label: row for row in groups_of(results)[0]}
    ranks = {result.name: result.ranks for result in results}
    sentences = []
    for result in results:
        start = result.begins_as
        if start is None or start not in rows:
            continue
        gaps = drawn_rsums(ranks[result.name], NAIVE) - drawn_rsums(ranks[start], NAIVE)
        gained = gap(rows[start], rows[result.name], gaps, result.record.confidence)
        sentences.append(f"By its training {says_lead(result.name, start, gained)}.")
    return sentences


def drawn_rsums(ranks: Path, criterion: str) -> np.ndarray:
    """The rsum of each draw of the test images, which are the same draws for every model.

    Args:
        ranks: the rank file of a model.
        criterion: "naive" or another.

    Returns:
        (1, RESAMPLES) in percent.
    """
    recalls = [metric for metric in METRICS if metric.name in RECALLS]
    folds = measured_folds(read_query_ranks(ranks, criterion))
    return resampled(folds, RESAMPLES, 0, recalls)[-1:]


def gap(a: TableRow, b: TableRow, gaps: np.ndarray, confidence: float) -> Difference:
    """How far the rsum of one row is above another's.

    Args:
        a: the row that the other one is compared with.
        b: that other row.
        gaps: (1, RESAMPLES) rsum of b less that of a, draw by draw.
        confidence: share of the draws inside the interval.

    Returns:
        The difference b - a with its interval.
    """
    low, high = limits(gaps.round(ROUNDING), confidence)
    return Difference(
        figure="rsum",
        a=a.figures["rsum"],
        b=b.figures["rsum"],
        low=float(low[0]),
        high=float(high[0]),
    )


def says_lead(first: str, second: str, lead: Difference) -> str:
    """ "scan leads vse by 2.5 points of rsum [-0.5, 5.0]: within noise".

    Args:
        first: the label of one row.
        second: that of another.
        lead: the rsum of the first less that of the second.

    Returns:
        The sentence, without a full stop.
    """
    noise = "more than noise" if lead.better else "within noise"
    amount, _, ends = lead.amount.partition(" ")
    return f"{first} leads {second} by {amount} points of rsum {ends}: {noise}"


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
    return says_lead(first.label, others[0].label, behind[others[0].label])


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
    leads = [f"{verdict(results, behind)}.", *gains_of_training(results)]
    lines = ["# Comparison of models", "", *leads, "", *about]
    return "\n".join(lines) + "\n"
