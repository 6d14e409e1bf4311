"""A claim on a dataset: which kept runs count, what they differ by, and what is wrong with them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline.runtime.errors import listing
from vse_workbench.claims.ledger import Claim, Ledger, resolved, setting_digest
from vse_workbench.claims.results import Row
from vse_workbench.claims.verdict import Spread, Verdict, judge, spread


@dataclass(frozen=True)
class Judgement:
    """What is known of a claim on a dataset: `published`, the paper's difference in points, if any;
    `found` and `verdict`, None where no pair counts; `problems`, which runs were left out and why;
    `lacks`, what was not run."""

    name: str
    claim: Claim
    dataset: str
    published: float | None
    seeds: list[int] = field(default_factory=list)
    found: Spread | None = None
    verdict: Verdict | None = None
    problems: list[str] = field(default_factory=list)
    lacks: str = ""


def judge_claim(
    ledger: Ledger, name: str, claim: Claim, dataset: str, rows: Sequence[Row]
) -> Judgement:
    """One claim on one dataset; `rows` are the kept runs of any setting."""
    measure = ledger.measures[claim.measure]
    signs = {name.removeprefix("-"): -1 if name.startswith("-") else 1 for name in measure}
    published = None
    if claim.published is not None:
        pairs = zip(signs.values(), claim.published.first, claim.published.second, strict=True)
        published = sum(sign * (a - b) for sign, a, b in pairs)
    made = Judgement(name, claim, dataset, published)
    sides = []
    for side in (claim.first, claim.second):
        digest = setting_digest(ledger, side, dataset)
        own = [row for row in rows if (row.setting, row.dataset) == (side, dataset)]
        if old := [row for row in own if row.digest != digest]:
            made.problems.append(f"{side}: {_seeds(old)} run with what claims.yaml said before")
        sides.append([row for row in own if row.digest == digest])
    if mixed := _mixed(ledger, sides):
        made.problems.extend(mixed)
        return made
    first, second = ({row.seed: row for row in side} for side in sides)
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        sides_of = {claim.first: sorted(first), claim.second: sorted(second)}
        missing = [name for name, there in sides_of.items() if not there]
        common = ", ".join(f"{name} {there}" for name, there in sides_of.items())
        lacks = f"not run: {', '.join(missing)}" if missing else f"no seed in common: {common}"
        return replace(made, lacks=lacks)
    paired = [row for seed in seeds for row in (first[seed], second[seed])]
    lacking = [f"{r.setting} seed {r.seed}" for r in paired if not signs.keys() <= r.figures.keys()]
    if lacking:
        made.problems.append(f"no figures of measure {claim.measure}: {listing(lacking)}")
        return made
    if alone := sorted(first.keys() ^ second.keys()):
        made.problems.append(f"seeds {listing(alone)} were run of one setting alone")
    found = spread([_value(first[s], signs) - _value(second[s], signs) for s in seeds])
    verdict = judge(found, published, claim.region)
    return replace(made, seeds=seeds, found=found, verdict=verdict)


def _value(row: Row, signs: Mapping[str, int]) -> float:
    return sum(sign * row.figures[name] for name, sign in signs.items())


def _mixed(ledger: Ledger, sides: Sequence[Sequence[Row]]) -> list[str]:
    """Why runs cannot be compared: of one model they need one digest of code, else one commit."""
    rows = [row for side in sides for row in side]
    models = {resolved(ledger, row.setting).model for row in rows}
    problems = []
    for key in ("corpus", "code" if len(models) == 1 else "commit"):
        groups = defaultdict[str, list[Row]](list)
        for row in rows:
            groups[getattr(row, key)].append(row)
        if len(groups) > 1:
            parts = (f"{value} ({_runs(group)})" for value, group in groups.items())
            problems.append(f"runs of different {key}: {'; '.join(parts)}")
    return problems


def _runs(rows: Sequence[Row]) -> str:
    names = dict.fromkeys(row.setting for row in rows)
    return ", ".join(f"{n} {_seeds(row for row in rows if row.setting == n)}" for n in names)


def _seeds(rows: Iterable[Row]) -> str:
    return f"seeds {listing(sorted(row.seed for row in rows), 20)}"
