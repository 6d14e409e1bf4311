"""A claim on a dataset: which kept runs count, what they differ by, and the word for it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

import numpy as np

from pipeline.comparison.paired import RESAMPLES
from pipeline.comparison.seeds import over_seeds
from pipeline.evaluation.figures import DECIMALS
from pipeline.runtime.errors import listing
from vse_workbench.claims.ledger import SEARCHED, Claim, Ledger, seeds_of, unmet
from vse_workbench.claims.ranks import Reached, drawn_differences, read_ranks
from vse_workbench.claims.results import COLLAPSED, Kept, Row, State, check_rows
from vse_workbench.claims.verdict import corrected, decided, p_value, smallest_of_interest


@dataclass(frozen=True)
class Judgement:
    """What is known of a claim on a dataset. All numbers are points of the claim's measure, first
    setting minus second, None where it was not judged."""

    name: str
    claim: Claim
    dataset: str
    word: str  # one of verdict.WORDS
    published: float | None  # the paper's difference, None without figures
    interest: float  # the smallest difference of interest
    levels: tuple[float, float] | None = None  # means over the seeds, of first and second
    n: int = 0  # seeds
    differences: tuple[float, ...] = ()  # of each seed
    mean: float | None = None
    low: float | None = None  # ends of the 95 % interval
    high: float | None = None
    s: float | None = None  # deviation of the seeds' differences
    # deviation of the mean over the seeds under other test images; None: no ranks for this measure
    q: float | None = None
    p: float | None = None
    corrected: float | None = None  # for the number of claims that were judged
    minutes: float = 0.0  # what its counted runs and their search cost
    notes: list[str] = field(default_factory=list)  # what is missing, or left out, and why


def judge_claims(ledger: Ledger, kept: Kept) -> list[Judgement]:
    """All claims on all their datasets; p values are corrected over those that were judged."""
    check_rows(ledger, kept.rows)
    made = [
        _judged(ledger, name, claim, dataset, kept)
        for name, claim in ledger.claims.items()
        for dataset in claim.datasets
    ]
    judged = [each for each in made if each.p is not None]
    values = iter(corrected([each.p for each in judged if each.p is not None]))
    return [each if each.p is None else _worded(each, next(values)) for each in made]


def _worded(made: Judgement, p: float) -> Judgement:
    assert made.mean is not None
    assert made.low is not None
    assert made.high is not None
    region, interval = made.claim.region, (made.low, made.high)
    word = decided(made.mean, *interval, p, region, made.interest)
    return replace(made, word=word, corrected=p)


def _judged(ledger: Ledger, name: str, claim: Claim, dataset: str, kept: Kept) -> Judgement:
    """One claim on one dataset before the correction: `undecided` where it has a p value."""
    measure = ledger.measures[claim.measure]
    signs = {name.removeprefix("-"): -1 if name.startswith("-") else 1 for name in measure}
    published = None
    if claim.published is not None:
        pairs = zip(signs.values(), claim.published.first, claim.published.second, strict=True)
        published = sum(sign * (a - b) for sign, a, b in pairs)
    interest = claim.interest or smallest_of_interest(published, len(measure))
    made = Judgement(name, claim, dataset, "not run", published, interest)
    if lacking := unmet(ledger, claim, dataset):
        return replace(made, word="premise not met", notes=lacking)
    own = [row for row in kept.rows if row.dataset == dataset]
    seeds, notes = seeds_of(ledger, claim), list[str]()
    for state in reversed(kept.states or [State("", frozenset())]):
        here = [row for row in own if row.key in state.keys and signs.keys() <= row.figures.keys()]
        sides = [_complete([row for row in here if row.setting == side], seeds)
                 for side in (claim.first, claim.second)]  # fmt: skip
        if shared := [corpus for corpus in sides[0] if corpus in sides[1]]:
            break
        if not notes:  # under the newest code
            lacking = [_lacks(here, side, claim, seeds) for side in (claim.first, claim.second)]
            notes = [note for note in lacking if note] or ["the sides have no corpus in common"]
    else:
        return replace(made, notes=notes)
    first, second = (side[shared[-1]] for side in sides)
    used = [*first, *second]
    settings = {row.place[:2] for row in used}
    searches = [row for row in here if row.place[:2] in settings and row.seed == SEARCHED]
    values = [[sum(sign * row.figures[f] for f, sign in signs.items()) for row in side]
              for side in (first, second)]  # fmt: skip
    reached = [[_reached(row, kept.ranks) for row in side] for side in (first, second)]
    drawn = drawn_differences(list(zip(*reached, strict=True)), signs, RESAMPLES)
    differences = [round(a - b, DECIMALS) for a, b in zip(*values, strict=True)]
    resampled = np.zeros(2) if drawn is None else drawn  # no deviation: the seeds alone
    found = over_seeds(differences, resampled)
    made = replace(
        made,
        word="undecided",
        levels=(fmean(values[0]), fmean(values[1])),
        n=len(seeds),
        differences=tuple(differences),
        mean=found.mean,
        low=found.low,
        high=found.high,
        s=found.s,
        q=None if drawn is None else found.q,
        minutes=sum(row.minutes for row in (*used, *searches)),
        notes=[f"judged by the code of commit {state.commit}: {note}" for note in notes],
    )
    collapsed = [row for row in used if row.outcome == COLLAPSED]
    early = [row for row in used if not row.has_converged]
    made.notes.extend(f"{row.name}: collapsed" for row in collapsed)
    made.notes.extend(
        f"{row.name}: best epoch {row.best_epoch} of at most {row.cap}" for row in early
    )
    if early or len(collapsed) == len(used):
        return replace(made, word="not converged" if early else "collapsed")
    return replace(made, p=p_value(differences, resampled, claim.region))


def _complete(rows: Sequence[Row], seeds: Sequence[int]) -> dict[str, list[Row]]:
    """By corpus the runs of all seeds, in their order; corpora that lack any are left out."""
    found = {
        row.corpus: {one.seed: one for one in rows if one.corpus == row.corpus} for row in rows
    }
    return {corpus: [own[seed] for seed in seeds] for corpus, own in found.items()
            if own.keys() >= set(seeds)}  # fmt: skip


def _lacks(rows: Sequence[Row], side: str, claim: Claim, seeds: Sequence[int]) -> str:
    there = {row.seed for row in rows if row.setting == side}
    lacking = listing([seed for seed in seeds if seed not in there], 20)
    return f"{side} lacks {claim.measure} of seeds {lacking}" if lacking else ""


def _reached(row: Row, folder: Path) -> Reached:
    is_without = row.outcome == COLLAPSED and not (folder / row.ranks).exists()
    return Reached(row.figures, None if is_without else read_ranks(folder / row.ranks))
