"""More than two runs, or settings over several seeds: which cannot be told from the first?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.evaluation.bootstrap import limits, resampled
from pipeline.evaluation.comparison import TIE, aligned, shown
from pipeline.evaluation.figures import RECALLS, average, columns_of, summary_of
from pipeline.evaluation.paired import (
    ROUNDING,
    Difference,
    check_comparable,
    figures_of,
    measured_folds,
    shared_rows,
)
from pipeline.evaluation.rank_file import METRICS, QueryRanks
from pipeline.evaluation.seeds import OverSeeds, over_seeds, shared_deviation
from pipeline.evaluation.standing import chance_of, draws_for, holm_of_pairs
from pipeline.runtime.errors import counted, listing


@dataclass(frozen=True)
class Place:
    """One run, or setting over seeds, in a table.

    Attributes:
        name: of the run.
        figures: means over its seeds, as `figures.summarise`.
        behind: the first run's rsum less its own, with `p` and `tied`; None for the first.
    """

    name: str
    figures: Mapping[str, Any]
    behind: Difference | None


def places_of(
    runs: Mapping[str, Sequence[QueryRanks]], resamples: int, confidence: float, seed: int
) -> list[Place]:
    """Runs by falling rsum, each with its difference from the first, corrected for all pairs.

    Args:
        runs: by name what the queries of a run reach, or of a run for each of the same n seeds.
        resamples: bootstrap draws, at least; more where the number of pairs needs them.
        confidence: between 0 and 1.
        seed: of the draws.

    Returns:
        A place for each run.

    Raises:
        WorkbenchError: runs of other queries, or another protocol.
    """
    every = [own for each in runs.values() for own in each]
    for name, each in runs.items():
        for own in each:
            check_comparable(every[0], own, name)
    metrics = shared_rows(every)
    recalls = [metric for metric in METRICS if metric.name in RECALLS]
    draws = max(resamples, draws_for(len(runs), confidence))
    figures = {
        name: average([summary_of(figures_of(own, metrics), metrics) for own in each])
        for name, each in runs.items()
    }
    names = sorted(runs, key=lambda name: -figures[name]["rsum"])
    drawn = []
    reached = []
    for name in names:
        folds = [measured_folds(own) for own in runs[name]]
        drawn.append(np.array([resampled(each, draws, seed, recalls)[-1] for each in folds]))
        reached.append([figures_of(own, metrics)[-1] for own in runs[name]])

    def gap(one: int, other: int) -> Difference:
        return _gap(reached[one], reached[other], drawn[one] - drawn[other], confidence)

    corrected = holm_of_pairs(len(names), lambda one, other: gap(one, other).p or 0.0)
    places = [Place(names[0], figures[names[0]], None)]
    for number, name in enumerate(names[1:], 1):
        alone = gap(0, number)
        p = corrected[(0, number)]
        behind = Difference(
            figure="rsum",
            a=figures[name]["rsum"],
            b=figures[names[0]]["rsum"],
            low=alone.low,
            high=alone.high,
            s=alone.s,
            q=alone.q,
            p=p,
            tied=p > round(1 - confidence, ROUNDING),
        )
        places.append(Place(name, figures[name], behind))
    return places


def _gap(
    first: Sequence[float], other: Sequence[float], drawn: np.ndarray, confidence: float
) -> Difference:
    """first - other of rsum, by seed and drawn (seeds, draws): interval, and p of this pair."""
    gaps = drawn.round(ROUNDING)
    if len(first) == 1:
        low, high = limits(gaps, confidence)
        p = chance_of(gaps[0])
        return Difference("rsum", other[0], first[0], float(low[0]), float(high[0]), p=p)
    by_seed = [round(one - two, ROUNDING) for one, two in zip(first, other, strict=True)]
    found: OverSeeds = over_seeds(by_seed, shared_deviation(gaps), confidence)
    return Difference(
        figure="rsum",
        a=float(np.mean(other)),
        b=float(np.mean(first)),
        low=found.low,
        high=found.high,
        s=found.s,
        q=found.q,
        p=found.p,
    )


def places_table(places: Sequence[Place]) -> list[str]:
    """Recalls, rsum, what each is behind the first, and p corrected for all pairs.

    Args:
        places: as `places_of`.

    Returns:
        Lines of an aligned table.
    """
    recalls = [metric for metric in METRICS if metric.name in RECALLS]
    columns = columns_of(recalls)
    titles = [column.label if column.keys[-1] == RECALLS[0] else column.title for column in columns]
    rows = [["", *titles, "behind", "p"]]
    for place in places:
        cells = [place.name, *(shown(column.of(place.figures)) for column in columns)]
        behind = place.behind
        if behind is None:
            rows.append([*cells, "", ""])
        else:
            rows.append([*cells, behind.amount + TIE * bool(behind.tied), f"{behind.p:.3f}"])
    return aligned(rows)


def places_conclusion(places: Sequence[Place], confidence: float) -> str:
    """One sentence: which runs cannot be told from the first.

    Args:
        places: as `places_of`.
        confidence: between 0 and 1.

    Returns:
        A sentence with its full stop.
    """
    first, *others = places
    tied = [place.name for place in others if place.behind and place.behind.tied]
    pairs = counted(len(places) * (len(places) - 1) // 2, "pair")
    how = f"Holm's correction, {pairs}, {100 * confidence:g} %"
    if not tied:
        return f"All others can be told from {first.name} ({how})."
    return f"Cannot be told from {first.name}: {listing(tied, 100)} ({how})."
