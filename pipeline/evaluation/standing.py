"""Who leads, by how much, and whether other test images could turn it around (`vse compare`)."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from pipeline.evaluation.bootstrap import limits, resampled
from pipeline.evaluation.comparison import NAIVE, Result, TableRow, described, groups_of, shown
from pipeline.evaluation.figures import RECALLS
from pipeline.evaluation.paired import RESAMPLES, ROUNDING, Difference, measured_folds
from pipeline.evaluation.rank_file import METRICS, read_query_ranks
from pipeline.runtime.errors import counted


def behind_first(results: Sequence[Result]) -> dict[str, Difference]:
    """How far each row is behind the first, and whether test images can tell the two apart.

    Args:
        results: of all models.

    Returns:
        By the label of each row but the first of `groups_of`: the first row's rsum less its own.
    """
    ranks = {result.name: result.ranks for result in results}
    confidence = results[0].record.confidence
    behind: dict[str, Difference] = {}
    for rows in groups_of(results):
        draws = draws_for(len(rows), confidence)
        drawn = [drawn_rsums(ranks[row.model], row.criterion, draws) for row in rows]
        behind |= _compared([row.label for row in rows], rows, np.array(drawn), confidence)
    return behind


def _compared(
    labels: Sequence[str], rows: Sequence[TableRow], drawn: np.ndarray, confidence: float
) -> dict[str, Difference]:
    """The rows but the first by label; drawn: (rows, draws) of rsum."""
    corrected = holm_of_pairs(len(rows), lambda one, other: chance_of(drawn[one] - drawn[other]))
    first = rows[0].figures["rsum"]
    differences = {}
    for number, label in enumerate(labels[1:], 1):
        low, high = limits((drawn[0] - drawn[number]).round(ROUNDING)[None], confidence)
        p = corrected[(0, number)]
        differences[label] = Difference(
            figure="rsum",
            a=rows[number].figures["rsum"],
            b=first,
            low=float(low[0]),
            high=float(high[0]),
            p=p,
            tied=p > round(1 - confidence, ROUNDING),
        )
    return differences


def draws_for(rows: int, confidence: float) -> int:
    """So many draws that the smallest p of one pair is significant among all pairs of the rows.

    Args:
        rows: of a table.
        confidence: between 0 and 1.

    Returns:
        RESAMPLES, or more for more than ten rows at 95 %.
    """
    pairs = rows * (rows - 1) // 2
    return max(RESAMPLES, math.ceil(2 * pairs / (1 - confidence)))


def chance_of(gaps: np.ndarray) -> float:
    """The two-sided p of a bootstrap: twice the share of draws beyond zero, the data counted in.

    Args:
        gaps: (draws,) of a difference.

    Returns:
        Between 2 / (draws + 1) and 1 (Davison and Hinkley 1997, section 4.2).
    """
    gaps = gaps.round(ROUNDING)
    beyond = min(int((gaps <= 0).sum()), int((gaps >= 0).sum()))
    return min(1.0, 2 * (1 + beyond) / (1 + len(gaps)))


def holm_of_pairs(rows: int, p_of: Callable[[int, int], float]) -> dict[tuple[int, int], float]:
    """p of every pair of rows, corrected for their number (Holm 1979).

    All pairs count, not only those with the first: the same images chose which row is the first.

    Args:
        rows: how many.
        p_of: gives p of the rows of two numbers, the smaller first.

    Returns:
        By pair of row numbers, the smaller first, the corrected p: the largest, over this pair and
        all with a smaller p, of p times the number of pairs whose p is not smaller.
    """
    alone = {pair: p_of(*pair) for pair in combinations(range(rows), 2)}
    corrected = {}
    largest = 0.0
    for place, pair in enumerate(sorted(alone, key=lambda pair: alone[pair])):
        largest = max(largest, min(1.0, (len(alone) - place) * alone[pair]))
        corrected[pair] = largest
    return corrected


def leaders(rows: Sequence[TableRow], behind: Mapping[str, Difference]) -> list[str]:
    """Labels of the first row and of those that cannot be told from it.

    Args:
        rows: a group of `groups_of`.
        behind: as `behind_first`.

    Returns:
        Labels, in the order of the rows.
    """
    first, *others = (row.label for row in rows)
    return [first, *(label for label in others if label in behind and behind[label].tied)]


def leaders_text(results: Sequence[Result], behind: Mapping[str, Difference]) -> str:
    """ "Cannot be told from scan: vse, cca (Holm's correction, 36 pairs, 95 %)".

    Args:
        results: of all models.
        behind: as `behind_first`.

    Returns:
        The sentence, without a full stop; empty for a single row.
    """
    rows = groups_of(results)[0]
    if len(rows) < 2:
        return ""
    first, *tied = leaders(rows, behind)
    pairs = counted(len(rows) * (len(rows) - 1) // 2, "pair")
    how = f"Holm's correction, {pairs}, {100 * results[0].record.confidence:g} %"
    if not tied:
        return f"All others can be told from {first} ({how})"
    return f"Cannot be told from {first}: {', '.join(tied)} ({how})"


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
        own = drawn_rsums(ranks[result.name], NAIVE, RESAMPLES)
        before = drawn_rsums(ranks[start], NAIVE, RESAMPLES)
        gained = gap(rows[start], rows[result.name], own - before, result.record.confidence)
        sentences.append(f"By its training {says_lead(result.name, start, gained)}.")
    return sentences


def drawn_rsums(ranks: Path, criterion: str, draws: int) -> np.ndarray:
    """The rsum of each draw of the test images, which are the same draws for every model.

    Args:
        ranks: the rank file of a model.
        criterion: "naive" or another.
        draws: how many.

    Returns:
        (draws,) in percent.
    """
    recalls = [metric for metric in METRICS if metric.name in RECALLS]
    folds = measured_folds(read_query_ranks(ranks, criterion))
    return resampled(folds, draws, 0, recalls)[-1]


def gap(a: TableRow, b: TableRow, gaps: np.ndarray, confidence: float) -> Difference:
    """How far the rsum of one row is above another's.

    Args:
        a: the row that the other one is compared with.
        b: that other row.
        gaps: (draws,) rsum of b less that of a, draw by draw.
        confidence: share of the draws inside the interval.

    Returns:
        The difference b - a with its interval.
    """
    low, high = limits(gaps.round(ROUNDING)[None], confidence)
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
    if lead.better and lead.tied:
        noise = "more than noise of this pair alone, not among all pairs of the table"
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


def standing_text(results: Sequence[Result], behind: Mapping[str, Difference]) -> str:
    """Who leads, by how much, and from whom it cannot be told: one or two sentences.

    Args:
        results: of all models.
        behind: as `behind_first`.

    Returns:
        Sentences with full stops.
    """
    sentences = [verdict(results, behind), leaders_text(results, behind)]
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


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
    gains = gains_of_training(results)
    lines = ["# Comparison of models", "", standing_text(results, behind), *gains, "", *about]
    return "\n".join(lines) + "\n"
