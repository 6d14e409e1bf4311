"""Paired bootstrap of two runs: which of their differences other test queries could turn around.

What is hard for one run is mostly hard for the other. The same groups are drawn for both: intervals
of the differences are much narrower than two intervals side by side suggest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.evaluation.bootstrap import MeasuredFold, limits, resampled
from pipeline.evaluation.comparison import aligned
from pipeline.evaluation.figures import average, columns_of, summarise, values_of
from pipeline.evaluation.metrics import Metric
from pipeline.evaluation.protocol import PROTOCOL, cut_folds
from pipeline.evaluation.rank_file import COLUMNS, QueryRanks, rows_in
from pipeline.evaluation.truth import group_codes
from pipeline.runtime.errors import WorkbenchError

BETTER = {column.label: column.better for column in COLUMNS}
FIGURES = tuple(BETTER)
RESAMPLES = 2000  # of `vse compare` and of the report
ROUNDING = 9  # decimals: the same recalls summed in another order must not differ


@dataclass(frozen=True)
class Difference:
    """A figure of two runs, and the interval of their difference.

    Attributes:
        figure: one of FIGURES.
        a: what the first run reaches.
        b: what the second run reaches.
        low: lower end of the interval of b - a.
        high: its upper end.
        s: over several seeds, the deviation (n - 1) of the difference by the seed.
        q: over several seeds, the deviation of the mean difference by the test images.
        p: in a table of several, how often chance alone would make such a difference in any pair of
            the table (Holm 1979), 0 to 1.
        tied: in such a table, whether p is too large to tell the two apart.
    """

    figure: str
    a: float
    b: float
    low: float
    high: float
    s: float | None = None
    q: float | None = None
    p: float | None = None
    tied: bool | None = None

    @property
    def amount(self) -> str:
        """ "2.5 [-0.5, 5.0]": b - a and its interval."""
        return f"{self.b - self.a:z.1f} [{self.low:z.1f}, {self.high:z.1f}]"

    @property
    def better(self) -> str:
        """ "A" or "B", empty when zero lies in the interval: within noise."""
        if self.low <= 0 <= self.high:
            return ""
        larger = BETTER.get(self.figure, "larger") == "larger"  # no key: a further recall
        return "B" if (self.low > 0) == larger else "A"


def paired_differences(
    a: QueryRanks, b: QueryRanks, resamples: int, confidence: float, seed: int
) -> list[Difference]:
    """The differences b - a of all FIGURES, with percentile intervals of a paired bootstrap.

    Args:
        a: what the queries of the first run reach.
        b: what those of the second run reach, the same queries.
        resamples: bootstrap draws of the test images, from 1.
        confidence: share of the draws inside an interval, between 0 and 1.
        seed: of the draws.

    Returns:
        A difference for each figure.

    Raises:
        WorkbenchError: other queries, or another protocol.
    """
    check_comparable(a, b)
    metrics = shared_rows([a, b])
    drawn_a, drawn_b = (resampled(measured_folds(run), resamples, seed, metrics) for run in (a, b))
    low, high = limits((drawn_b - drawn_a).round(ROUNDING), confidence)
    figures_a = figures_of(a, metrics)
    figures_b = figures_of(b, metrics)
    return [
        Difference(
            figure=column.label,
            a=figures_a[row],
            b=figures_b[row],
            low=float(low[row]),
            high=float(high[row]),
        )
        for row, column in enumerate(columns_of(metrics))
    ]


def shared_rows(runs: Sequence[QueryRanks]) -> tuple[Metric, ...]:
    """The metrics that all runs have."""
    return rows_in(set.intersection(*(set(run.i2t.measured.values) for run in runs)))


def figures_of(run: QueryRanks, metrics: Sequence[Metric]) -> list[float]:
    """What a run reaches, means over the folds of its protocol.

    Args:
        run: what its queries reach.
        metrics: that it has.

    Returns:
        A figure for each of `figures.columns_of`.
    """
    folds = [summarise(fold.measured, metrics) for fold in measured_folds(run)]
    return values_of(average(folds), metrics)


def measured_folds(run: QueryRanks) -> list[MeasuredFold]:
    """What the queries of a run reach, cut into the folds of its protocol."""
    match = PROTOCOL.fullmatch(run.protocol)
    if not match:
        raise WorkbenchError(f"unknown protocol {run.protocol!r}", "run: dvc repro evaluate")
    images, captions = group_codes(run.i2t.groups, run.t2i.groups)
    folds = []
    for fold in cut_folds(images, captions, int(match[1] or 1)):
        measured = {way: getattr(run, way).measured.of(rows) for way, rows in fold.items()}
        of_images, of_captions = group_codes(images[fold["i2t"]], captions[fold["t2i"]])
        folds.append(MeasuredFold(measured, of_images, of_captions))
    return folds


def table(differences: Sequence[Difference], confidence: float) -> list[str]:
    """A row per figure, with its difference and what that says.

    Args:
        differences: of two runs, or of two settings over several seeds.
        confidence: share of the draws inside their intervals, for the head.

    Returns:
        Lines of an aligned table.
    """
    spread = differences[0].s is not None
    head = ["", "A", "B", "B - A", f"{100 * confidence:g} %", *(["s", "q"] if spread else []), ""]
    body = [
        [
            row.figure,
            f"{row.a:.1f}",
            f"{row.b:.1f}",
            f"{row.b - row.a:+z.1f}",
            f"{row.low:+z.1f} to {row.high:+z.1f}",
            *([f"{row.s:.1f}", f"{row.q:.1f}"] if spread else []),
            f"{row.better} is better" if row.better else "within noise",
        ]
        for row in differences
    ]
    return aligned([head, *body])


def conclusion(differences: Sequence[Difference]) -> str:
    """One sentence: which differences, of all FIGURES, their intervals tell from zero."""
    if all(row.low == row.high == row.b - row.a == 0 for row in differences):
        return "A and B reach the same in every figure: all differences are zero."
    claims = list(filter(None, (_claim(side, differences) for side in ("B", "A"))))
    if not claims:
        return "All differences are within noise."
    if not all(row.better for row in differences):
        claims.append("the other differences are within noise")
    return "; ".join(claims) + "."


def _claim(side: str, differences: Sequence[Difference]) -> str:
    clear = [row for row in reversed(differences) if row.better == side]
    if not clear:
        return ""
    first, *others = clear
    low, high = sorted((abs(first.low), abs(first.high)))
    amount = f"{abs(first.b - first.a):.1f} [{low:.1f}, {high:.1f}]"
    also = ", also in " + ", ".join(row.figure for row in reversed(others)) if others else ""
    return f"{side} is better in {first.figure} by {amount}{also}"


def check_comparable(a: QueryRanks, b: QueryRanks, name: str = "B") -> None:
    """Refuse to compare what cannot be compared.

    Args:
        a: what the queries of run A reach.
        b: what those of another run reach.
        name: of the other run.

    Raises:
        WorkbenchError: other queries, or another protocol.
    """
    if a.protocol != b.protocol:
        raise WorkbenchError(
            f"A and {name} differ in protocol: {a.protocol} and {b.protocol}",
            "evaluate both with the same evaluation.folds and evaluation.subset",
        )
    for what, left, right in (("image", a.i2t, b.i2t), ("caption", a.t2i, b.t2i)):
        _check_same(f"{what}s", left.ids, right.ids, name)
        _check_same(f"groups of {what}s", left.groups, right.groups, name)


def _check_same(what: str, a: list[str], b: list[str], name: str) -> None:
    if a == b:
        return
    shared = min(len(a), len(b))
    row = next((row for row in range(shared) if a[row] != b[row]), shared)
    first, second = (repr(names[row]) if row < len(names) else "none" for names in (a, b))
    raise WorkbenchError(
        f"A and {name} were evaluated on different {what}, {len(a)} and {len(b)} of them; "
        f"number {row + 1} is {first} in A and {second} in {name}",
        "evaluate both on the same corpus and split",
    )
