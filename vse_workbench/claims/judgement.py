"""A claim on a dataset: which kept runs count, what they differ by, and the word for it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np
from scipy import stats

from pipeline.comparison.seeds import OverSeeds, over_seeds
from pipeline.evaluation.figures import DECIMALS
from pipeline.runtime.errors import listing
from vse_workbench.claims.ledger import SEARCHED, Claim, Ledger, factors_of, seeds_of, unmet
from vse_workbench.claims.ranks import Reached, drawn_differences, read_ranks
from vse_workbench.claims.results import COLLAPSED, Kept, Row, State
from vse_workbench.claims.verdict import POINTS, decided, p_value


@dataclass
class Judgement:
    """What is known of a claim on a dataset. All numbers are points of the claim's measure, first
    setting minus second, None where it was not judged."""

    name: str
    claim: Claim
    dataset: str
    word: str  # one of verdict.WORDS
    published: float | None  # the paper's difference, None without figures
    levels: tuple[float, float] | None = None  # means over the seeds, of first and second
    differences: list[float] = field(default_factory=list)  # of each of the n seeds
    found: OverSeeds | None = None  # their mean and its 95 % interval
    alone: bool = False  # without other test images: there are no ranks for this measure
    p: float | None = None
    corrected: float | None = None  # for the number of claims that were judged
    minutes: float = 0.0  # what its counted runs and their search cost
    notes: list[str] = field(default_factory=list)  # what is missing, or left out, and why


def judge_claims(ledger: Ledger, kept: Kept) -> list[Judgement]:
    """All claims on all their datasets; p values are corrected over those that were judged."""
    cells = [
        _judged(ledger, name, claim, dataset, kept)
        for name, claim in ledger.claims.items()
        for dataset in claim.datasets
    ]
    judged = [(cell, cell.found, cell.p) for cell in cells if cell.found and cell.p is not None]
    # Benjamini and Hochberg (1995): of those at or below LEVEL at most LEVEL are false discoveries
    values = stats.false_discovery_control([p for *_, p in judged]) if judged else ()
    for (cell, effect, _), p in zip(judged, values, strict=True):
        interest = max(POINTS * len(ledger.signs(cell.claim)), abs(cell.published or 0.0) / 4)
        cell.corrected = float(p)
        cell.word = decided(effect.mean, effect.low, effect.high, p, cell.claim.region, interest)
    return cells


def _judged(ledger: Ledger, name: str, claim: Claim, dataset: str, kept: Kept) -> Judgement:
    """One claim on one dataset before the correction: `undecided` where it has a p value."""
    signs, paper = ledger.signs(claim), ledger.published(claim)
    cell = Judgement(name, claim, dataset, "not run", paper[0] - paper[1] if paper else None)
    if lacking := unmet(ledger, claim, dataset):
        cell.word, cell.notes = "premise not met", lacking
        return cell
    seeds, sides, notes = seeds_of(ledger, claim), (claim.first, claim.second), list[str]()
    for state in reversed(kept.states or [State("", frozenset())]):
        here = [row for row in kept.rows if row.dataset == dataset and row.key in state.keys]
        runs = {(row.setting, row.seed): row for row in here if signs.keys() <= row.figures.keys()}
        lost = {side: [seed for seed in seeds if (side, seed) not in runs] for side in sides}
        lacking = [f"{side} lacks {claim.measure} of seeds {listing(missing, 20)}"
                   for side, missing in lost.items() if missing]  # fmt: skip
        used = [runs[side, seed] for side in sides for seed in seeds if seed not in lost[side]]
        if len({row.corpus for row in used}) > 1:
            lacking.append("the sides have no corpus in common")
        if not lacking:
            break
        notes = notes or lacking  # under the newest code
    else:
        cell.notes = notes
        return cell
    searches = [row for row in here if row.setting in sides and row.seed == SEARCHED]
    values = [sum(sign * row.figures[f] for f, sign in signs.items()) for row in used]
    reached, n = list[Reached](), len(seeds)
    for row, path in ((row, kept.ranks / row.ranks) for row in used):
        is_without = row.outcome == COLLAPSED and not path.exists()
        reached.append((row.figures, None if is_without else read_ranks(path)))
    drawn = drawn_differences(list(zip(reached[:n], reached[n:], strict=True)), signs)
    differences = [round(values[k] - values[k + n], DECIMALS) for k in range(n)]
    resampled = np.zeros(2) if drawn is None else drawn  # no deviation: the seeds alone
    collapsed = [row for row in used if row.outcome == COLLAPSED]
    early = [row for row in used if not row.has_converged]
    newer = f"judged by code and settings of commit {state.commit}: of the newest "
    cell.notes = [newer + "; ".join(notes)] if notes else []
    endings = dict[str, list[int]]()
    for row in (*collapsed, *early):
        text = row.outcome or f"best epoch {row.best_epoch} of at most {row.cap}"
        endings.setdefault(f"{row.setting}: {text}", []).append(row.seed)
    cell.notes += [f"{text}, seeds {listing(own, 20)}" for text, own in endings.items()]
    cell.notes += _edges(ledger, used)
    cell.levels, cell.differences = (fmean(values[:n]), fmean(values[n:])), differences
    cell.found, cell.alone = over_seeds(differences, resampled), drawn is None
    cell.minutes = sum(row.minutes for row in (*used, *searches))
    if early or len(collapsed) == len(used):
        cell.word = "not converged" if early else "collapsed"
    else:
        cell.word, cell.p = "undecided", p_value(differences, resampled, claim.region)
    return cell


def _edges(ledger: Ledger, rows: Sequence[Row]) -> list[str]:
    """Settings whose search chose the first or the last of its factors: others may be better."""
    notes = []
    for name, factor in {row.setting: row.factor for row in rows}.items():
        factors = sorted(factors_of(ledger, name))
        if len(factors) > 1 and factor in (factors[0], factors[-1]):
            notes.append(f"{name}: its search ended at its edge, factor {factor:g}")
    return notes
