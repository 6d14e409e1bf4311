"""The table of kept runs, from which verdicts are computed again without running anything, and the
table of the code and settings that there were."""

import csv
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean

from pydantic import TypeAdapter, ValidationError

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import fingerprint, write_text
from pipeline.runtime.section import Positive
from pipeline.runtime.text import read_text
from vse_workbench.claims.ledger import (
    FIGURES,
    SEARCH_SEEDS,
    Claim,
    Figure,
    Ledger,
    Point,
    read_ledger,
    resolved_setting,
    search_on,
    seeds_of,
)

COLLAPSED = "collapsed"  # outcome of a run whose scores are at chance level
LAST = 0.9  # a best epoch after this share of the cap: the training was not at its end


Run = tuple[str, str, int, Point, str, str]


@dataclass(frozen=True)
class Row:
    """One run of a setting. Digests have 12 hex digits; epochs: of the best one's phase."""

    setting: str
    dataset: str
    seed: int
    factor: Positive  # of the search: what its keys were multiplied by
    regularisation: int  # of the search: the number of its value, 0: the setting's own
    digest: str  # of all values of params.yaml that its stages read, but seed and factor
    corpus: str  # of the tables that it was scored on
    code: str  # of the lists of code of its stages
    trained: str  # of those up to its training alone; "" in rows that are older than this column
    commit: str  # that it started from
    minutes: Figure  # of a processor, that it took
    val_rsum: Figure  # of the best epoch
    best_epoch: int
    last_epoch: int
    cap: int  # how many it could have, 0 for a model without epochs
    outcome: str  # "" or COLLAPSED
    figures: Mapping[str, Figure]  # by names such as i2t.r1

    @property
    def key(self) -> str:
        """What a State has of it: its settings and its code."""
        return f"{self.digest}.{self.code}"

    @property
    def point(self) -> Point:
        """What its search has changed."""
        return Point(self.factor, self.regularisation)

    @property
    def run(self) -> Run:
        """What identifies it whatever the code was."""
        return self.setting, self.dataset, self.seed, self.point, self.digest, self.corpus

    @property
    def place(self) -> Run:
        """What identifies it."""
        return self.setting, self.dataset, self.seed, self.point, self.key, self.corpus

    @property
    def name(self) -> str:
        return f"{self.setting} on {self.dataset}, seed {self.seed}"

    @property
    def ranks(self) -> str:
        """The name of the file with the ranks of its queries."""
        place = (self.setting, self.dataset, self.seed, self.factor, self.key, self.corpus)
        own = (self.regularisation,) if self.regularisation else ()
        suffix = fingerprint(place=(*place, *own))[:8]
        return f"{self.setting}.{self.dataset}.{self.seed}.{suffix}.npz"

    @property
    def has_converged(self) -> bool:
        """Whether it ended before its cap ended it; what collapsed has ended, too."""
        return self.outcome == COLLAPSED or not self.cap or self.best_epoch <= LAST * self.cap


@dataclass(frozen=True)
class State:
    """A commit, and the keys (Row.key) that runs of all settings had there: rows with keys of one
    state were made by the same code."""

    commit: str
    keys: frozenset[str]


@dataclass(frozen=True)
class Kept:
    """All that is kept of runs: the table, the states beside it, and the folder of their ranks."""

    path: Path
    rows: list[Row]
    states: list[State]  # the newest last

    @property
    def ranks(self) -> Path:
        return self.path.with_name(f"{self.path.stem}_ranks")


KEYS = tuple(field.name for field in fields(Row))[:-1]


@dataclass(frozen=True)
class Searched:
    """How far the search of a setting has come.

    lacking: what is to be run next, none where it is complete; chosen: None before that;
    is_at_edge: the chosen factor is the smallest or the largest that was tried.
    """

    lacking: list[Point]
    chosen: Point | None
    is_at_edge: bool = False


def searched(ledger: Ledger, setting: str, dataset: str, rows: Iterable[Row]) -> Searched:
    """What a search has found: the factor with the best mean validation over its seeds, of equal
    ones the nearest to 1, and with it the best regularisation.

    Args:
        ledger: the claims.
        setting: its name.
        dataset: on which it runs.
        rows: runs of the setting there; those with seeds of the search count.

    Returns:
        What is lacking, or the choice.
    """
    model = resolved_setting(ledger, setting).model
    search = search_on(ledger, setting, dataset)
    if model not in search.keys:
        return Searched([], Point())
    means = _validation_means(rows, SEARCH_SEEDS[: search.seeds])
    tried = sorted(search.first or search.factors)
    best = Point()
    is_open = True
    while is_open:
        points = [Point(factor) for factor in tried]
        lacking = [point for point in points if point not in means]
        if lacking:
            return Searched(lacking, None)
        best = max(points, key=lambda point: (means[point], -abs(math.log(point.factor))))
        beyond = _beyond(best.factor, tried, search.factors)
        tried = sorted({*tried, *beyond})
        is_open = bool(beyond)
    values = search.regularisation[model].values if model in search.regularisation else []
    points = [best._replace(regularisation=number) for number in range(len(values) + 1)]
    lacking = [point for point in points if point not in means]
    if lacking:
        return Searched(lacking, None)
    chosen = max(points, key=lambda point: (means[point], -point.regularisation))
    return Searched([], chosen, len(tried) > 1 and best.factor in (tried[0], tried[-1]))


def _validation_means(rows: Iterable[Row], seeds: Sequence[int]) -> dict[Point, float]:
    """By what was tried with all seeds of a search."""
    found: dict[Point, dict[int, float]] = {}
    for row in rows:
        if row.seed in seeds:
            found.setdefault(row.point, {})[row.seed] = row.val_rsum
    return {point: fmean(own.values()) for point, own in found.items() if len(own) == len(seeds)}


def _beyond(best: float, tried: Sequence[float], allowed: Iterable[float]) -> list[float]:
    """The next factor outside of those that were tried, where the best is at their edge; of one
    factor the next on both sides."""
    below = [factor for factor in allowed if factor < tried[0]]
    above = [factor for factor in allowed if factor > tried[-1]]
    found = [max(below)] if below and best == tried[0] else []
    return [*found, min(above)] if above and best == tried[-1] else found


def check_rows(ledger: Ledger, rows: Sequence[Row]) -> None:
    """Refuse runs with a seed that claims.yaml does not list, or with another factor than the one
    that their search has chosen. A run that is made again under other code has the search of the
    first one.

    Args:
        ledger: the claims.
        rows: of the table, in its order.

    Raises:
        WorkbenchError: the first such run, by its name.
    """
    before: set[Run] = set()
    for row in rows:
        is_again = row.run in before
        before.add(row.run)
        if row.setting not in ledger.settings or row.dataset not in ledger.datasets:
            continue
        if row.seed in SEARCH_SEEDS:
            continue
        seeds = seeds_of(ledger, row.setting, row.dataset)
        if row.seed in ledger.former_seeds and row.seed not in seeds:
            continue
        if row.seed not in seeds:
            raise WorkbenchError(
                f"{row.name}: claims.yaml has the seeds {listing(seeds, 20)}",
                "seeds are fixed before a run: remove its line",
            )
        if is_again:
            continue
        alike = [r for r in rows if r.place[:2] == row.place[:2] and r.key == row.key]
        chosen = searched(ledger, row.setting, row.dataset, alike).chosen
        if chosen != row.point:
            found = "is not complete" if chosen is None else f"has chosen {shown_point(chosen)}"
            raise WorkbenchError(
                f"{row.name}: run with {shown_point(row.point)}; its search {found}",
                "remove its line",
            )


def shown_point(point: Point) -> str:
    """What a search has changed, as text."""
    regularisation = f", regularisation {point.regularisation}" if point.regularisation else ""
    return f"factor {point.factor:g}{regularisation}"


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write the table, tabs between columns, figures in percent or ranks as metrics files have
    them.

    Args:
        path: the file.
        rows: in their order.
    """
    lines: list[tuple[object, ...]] = [(*KEYS, *FIGURES)]
    for row in rows:
        figures = (row.figures.get(key, "") for key in FIGURES)
        lines.append((*(getattr(row, key) for key in KEYS), *figures))
    write_text(path, "".join("\t".join(map(str, line)) + "\n" for line in lines))


def read_claims(names: tuple[str, ...]) -> tuple[Ledger, Kept, dict[str, Claim]]:
    """The ledger, what is kept of its runs, and the claims of these names, all for none.
    WorkbenchError for a name that is no claim, and as check_rows."""
    ledger = read_ledger()
    kept = read_kept()
    unknown = [name for name in names if name not in ledger.claims]
    if unknown:
        raise WorkbenchError(
            f"no claim {listing(unknown)}", f"claims: {listing(ledger.claims, 100)}"
        )
    check_rows(ledger, kept.rows)
    return ledger, kept, {name: ledger.claims[name] for name in names or ledger.claims}


def read_kept(path: Path = Path("docs/claims.tsv")) -> Kept:
    """What is kept beside a table of runs, nothing when there is no such file."""
    return Kept(path, read_rows(path), read_states(states_of(path)))


def states_of(path: Path) -> Path:
    """The table of states beside a table of runs."""
    return path.with_name(f"{path.stem}_code.tsv")


def read_rows(path: Path) -> list[Row]:
    """The table's rows, none when there is no such file; WorkbenchError for a wrong table."""
    lines = read_text(path).splitlines() if path.exists() else []
    table = list(csv.DictReader(lines, delimiter="\t"))
    figures = [{key: line[key] for key in FIGURES if line.get(key)} for line in table]
    records = [{**line, "figures": values} for line, values in zip(table, figures, strict=True)]
    try:
        rows = TypeAdapter(list[Row]).validate_python(records)
    except ValidationError as error:
        number, *_, column = error.errors()[0]["loc"]
        text = error.errors()[0]["msg"]
        line = int(number) + 2  # of the file, the head is its first
        raise WorkbenchError(f"{path}, line {line}: {column}: {text}") from None
    for identity, count in Counter(row.place for row in rows).items():
        if count > 1:
            setting, dataset, seed, point, *_ = identity
            what = f"{setting} on {dataset}, seed {seed}, {shown_point(point)}"
            text = f"{path}: two lines of {what}, with the same code and corpus"
            raise WorkbenchError(text, "keep one of them")
    return rows


def write_states(path: Path, states: Iterable[State]) -> None:
    """Write a line for each state: its commit, a tab, its keys.

    Args:
        path: the file.
        states: the newest last.
    """
    lines = (f"{state.commit}\t{' '.join(sorted(state.keys))}\n" for state in states)
    write_text(path, "".join(lines))


def note_state(kept: Kept, commit: str, keys: Iterable[str]) -> None:
    """Write down which code and settings there are now, unless the newest state says so already.

    Args:
        kept: what is kept; its states stay as they were read.
        commit: that runs start from.
        keys: Row.key of all that claims compare.
    """
    now = State(commit, frozenset(keys))
    if not kept.states or kept.states[-1].keys != now.keys:
        write_states(states_of(kept.path), [*kept.states, now])


def read_states(path: Path) -> list[State]:
    """The states of a file, none when there is none; WorkbenchError for another file."""
    try:
        lines = read_text(path).splitlines() if path.exists() else []
        parts = [line.split("\t") for line in lines]
        return [State(commit, frozenset(keys.split())) for commit, keys in parts]
    except ValueError:
        raise WorkbenchError(f"{path}: not a table of the code of kept runs") from None
