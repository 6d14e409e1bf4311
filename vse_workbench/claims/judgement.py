"""A claim on a dataset: which kept runs count, what they differ by, and what is wrong with them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline.runtime.errors import listing
from vse_workbench.claims.ledger import Claim, Ledger, claim_datasets, resolved, setting_digest
from vse_workbench.claims.results import Row
from vse_workbench.claims.verdict import Spread, Verdict, judge, spread


@dataclass(frozen=True)
class Judgement:
    """What is known of a claim on a dataset.

    `published` is the paper's difference in points of the measure, None where it gives none;
    `found` the differences of the pairs, None without a pair; `verdict` None when nothing can be
    said; `problems` say which runs were left out and why; `lacks` what was not run, where there is
    no pair.
    """

    name: str
    claim: Claim
    dataset: str
    published: float | None
    seeds: list[int] = field(default_factory=list)
    found: Spread | None = None
    verdict: Verdict | None = None
    problems: list[str] = field(default_factory=list)
    lacks: str = ""


def judge_claims(
    ledger: Ledger, claims: Mapping[str, Claim], rows: Sequence[Row]
) -> list[Judgement]:
    """Every claim on each of its datasets, by the kept runs."""
    return [
        judge_claim(ledger, name, claim, dataset, rows)
        for name, claim in claims.items()
        for dataset in claim_datasets(ledger, claim)
    ]


def judge_claim(
    ledger: Ledger, name: str, claim: Claim, dataset: str, rows: Iterable[Row]
) -> Judgement:
    """One claim on one dataset; `rows` are the kept runs of any setting."""
    signs = _signs(ledger.measures[claim.measure])
    published = None
    if claim.published is not None:
        pairs = zip(signs.values(), claim.published.first, claim.published.second, strict=True)
        published = sum(sign * (a - b) for sign, a, b in pairs)
    made = Judgement(name, claim, dataset, published)
    own = [row for row in rows if row.dataset == dataset]
    sides = [[row for row in own if row.setting == side] for side in (claim.first, claim.second)]
    for number, side in enumerate((claim.first, claim.second)):
        digest = setting_digest(ledger, side, dataset)
        old = [row for row in sides[number] if row.digest != digest]
        if old:
            made.problems.append(f"{side}: {_seeds(old)} run with what claims.yaml said before")
        sides[number] = [row for row in sides[number] if row.digest == digest]
    if mixed := _mixed(ledger, sides):
        made.problems.extend(mixed)
        return made
    first, second = ({row.seed: row for row in side} for side in sides)
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        return replace(made, lacks=_not_run(claim, first, second))
    lacking = [
        f"{row.setting} seed {row.seed}"
        for seed in seeds
        for row in (first[seed], second[seed])
        if not signs.keys() <= row.figures.keys()
    ]
    if lacking:
        made.problems.append(f"no figures of measure {claim.measure}: {listing(lacking)}")
        return made
    if alone := sorted(first.keys() ^ second.keys()):
        made.problems.append(f"seeds {listing(alone)} were run of one setting alone")
    found = spread([_value(first[s], signs) - _value(second[s], signs) for s in seeds])
    verdict = judge(found, published, claim.region)
    return replace(made, seeds=seeds, found=found, verdict=verdict)


def _signs(measure: Iterable[str]) -> dict[str, int]:
    return {name.removeprefix("-"): -1 if name.startswith("-") else 1 for name in measure}


def _value(row: Row, signs: Mapping[str, int]) -> float:
    return sum(sign * row.figures[name] for name, sign in signs.items())


def _mixed(ledger: Ledger, sides: Sequence[Sequence[Row]]) -> list[str]:
    """Why runs cannot stand in one comparison; nothing when they can.

    Runs of one model must have one digest of code; of different models, one commit.
    """
    rows = [row for side in sides for row in side]
    models = {resolved(ledger, row.setting).model for row in rows}
    told = "code" if len(models) == 1 else "commit"
    problems = []
    for key in ("corpus", told):
        groups = dict[str, list[Row]]()
        for row in rows:
            groups.setdefault(getattr(row, key), []).append(row)
        if len(groups) > 1:
            parts = (f"{value} ({_runs(group)})" for value, group in groups.items())
            problems.append(f"runs of different {key}: {'; '.join(parts)}")
    return problems


def _not_run(claim: Claim, first: Mapping[int, Row], second: Mapping[int, Row]) -> str:
    sides = ((claim.first, first), (claim.second, second))
    missing = list(dict.fromkeys(name for name, there in sides if not there))
    if missing:
        return f"not run: {', '.join(missing)}"
    return f"no seed in common: {claim.first} {sorted(first)}, {claim.second} {sorted(second)}"


def _runs(rows: Iterable[Row]) -> str:
    by = dict[str, list[Row]]()
    for row in rows:
        by.setdefault(row.setting, []).append(row)
    return ", ".join(f"{name} {_seeds(group)}" for name, group in by.items())


def _seeds(rows: Iterable[Row]) -> str:
    return f"seeds {listing(sorted({row.seed for row in rows}), 20)}"
