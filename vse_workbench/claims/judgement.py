"""A claim on a dataset: which kept runs count, what they differ by, and the word for it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from scipy import stats

from pipeline.evaluation.figures import DECIMALS
from pipeline.evaluation.seeds import OverSeeds, over_seeds, shared_deviation
from pipeline.runtime.errors import listing
from vse_workbench.claims.carrying import Codes, equal_codes, find_reruns, key_of, keys_of
from vse_workbench.claims.ledger import (
    SEARCH_SEEDS,
    Claim,
    Ledger,
    is_tried,
    judging_seeds,
    resolved_setting,
    unmet_premises,
)
from vse_workbench.claims.ranks import FiguresAndRanks, chance_of, image_differences, read_ranks
from vse_workbench.claims.results import COLLAPSED, Kept, Row, State, searched
from vse_workbench.claims.verdict import (
    MEASURED,
    NOT_COMPARABLE,
    NOT_CONVERGED,
    NOT_RUN,
    POINTS,
    PREMISE,
    WITHDRAWN,
    open_sides,
    p_value,
    verdict_word,
)

DRAWN = " on drawn scenes"  # after a word whose runs were not of photographs
CLEAR = 3  # times chance: below it a level is no measure for a share
TRAINED = 0.5  # of the other setting of a model: a side below this share of its level did not train
LEVELS = ("rsum", "phrases.r1")  # by which that is seen, the first that a run has
FIRST_PLACES = ("i2t.r1", "t2i.r1", "phrases.r1")


@dataclass
class Judgement:
    """What is known of a claim on a dataset. All numbers are points of the claim's measure, first
    setting minus second, None where it was not judged."""

    name: str
    claim: Claim
    dataset: str
    word: str = NOT_RUN  # one of verdict.WORDS
    published: float | None = None  # the paper's difference, None without figures
    is_drawn: bool = False  # the dataset's images are drawn scenes
    used: tuple[Sequence[Row], Sequence[Row]] = ((), ())  # of first and second, of n seeds each
    at_edge: Sequence[bool] = (False, False)  # the search of first and second ended at its edge
    levels: tuple[float, float] | None = None  # means over the seeds, of first and second
    has_share: bool = False  # the second level is clear of chance
    differences: list[float] = field(default_factory=list)  # of each of the n seeds
    found: OverSeeds | None = None  # their mean and its 95 % interval
    is_seeds_only: bool = False  # without other test images: there are no ranks for this measure
    p: float | None = None
    corrected: float | None = None  # for the number of claims that were judged
    family: int = 0  # that number
    minutes: float = 0.0  # what its counted runs and their search cost
    notes: list[str] = field(default_factory=list)  # what is missing, or left out, and why

    @property
    def label(self) -> str:
        """The word, which says so where runs on drawn scenes led to it."""
        return self.word + DRAWN if self.is_drawn and self.word in MEASURED else self.word

    @property
    def first_places(self) -> list[list[float]]:
        """R@1 of first and second setting, means over the seeds: of images, of captions, or of
        phrases. [] where a run has none."""
        rows = [row for side in self.used for row in side]
        names = [name for name in FIRST_PLACES if all(name in row.figures for row in rows)]
        sides = [[fmean(row.figures[name] for row in side) for name in names] for side in self.used]
        return sides if rows and names else []


def judge_claims(ledger: Ledger, kept: Kept) -> list[Judgement]:
    """Judge all claims on all their datasets; p values are corrected over those that were judged.

    Args:
        ledger: the claims.
        kept: the runs that there are.

    Returns:
        A judgement for each claim and dataset, in the order of claims.yaml.
    """
    codes = equal_codes(find_reruns(kept))
    cells = [
        _judge(ledger, Judgement(name, claim, dataset), kept, codes)
        for name, claim in ledger.claims.items()
        for dataset in claim.datasets
    ]
    judged = [(cell, cell.found, cell.p) for cell in cells if cell.found and cell.p is not None]
    # Benjamini and Hochberg (1995): of those at or below LEVEL at most LEVEL are false discoveries
    values = stats.false_discovery_control([p for *_, p in judged]) if judged else ()
    for (cell, effect, _), p in zip(judged, values, strict=True):
        region = cell.claim.region
        interest = POINTS * len(ledger.signs(cell.claim))
        cell.corrected = float(p)
        cell.family = len(judged)
        cell.word = verdict_word(effect.mean, effect.low, effect.high, p, region, interest)
        open_ones = open_sides(cell.word, effect.mean, region)
        if any(cell.at_edge[side] for side in open_ones):
            cell.word = NOT_CONVERGED
    return cells


def _judge(ledger: Ledger, cell: Judgement, kept: Kept, codes: Codes) -> Judgement:
    """One claim on one dataset before the correction: `undecided` where it has a p value."""
    claim = cell.claim
    paper = ledger.published(cell.claim)
    cell.published = paper[0] - paper[1] if paper else None
    cell.is_drawn = ledger.datasets[cell.dataset].drawn
    if claim.withdrawn:
        cell.word = WITHDRAWN
        cell.notes = [claim.withdrawn]
    elif not is_tried(ledger, claim, cell.dataset):
        cell.word = PREMISE
        cell.notes = unmet_premises(ledger, claim, cell.dataset)
    else:
        _count_runs(ledger, cell, kept, codes)
    if cell.used[0]:
        _measure(ledger, cell, kept)
    return cell


def _count_runs(ledger: Ledger, cell: Judgement, kept: Kept, codes: Codes) -> None:
    """Give a cell the runs of the newest state that has all seeds of both sides, or say what is
    lacking under the newest one."""
    claim = cell.claim
    notes: list[str] = []
    signs = ledger.signs(claim)
    sides = (claim.first, claim.second)
    seeds = judging_seeds(ledger, claim, cell.dataset)
    for state in reversed(kept.states or [State("", frozenset())]):
        keys = keys_of(state, codes)
        here = [
            row for row in kept.rows if row.dataset == cell.dataset and key_of(row, codes) in keys
        ]
        runs = {(row.setting, row.seed): row for row in here if signs.keys() <= row.figures.keys()}
        lost = {side: [seed for seed in seeds if (side, seed) not in runs] for side in sides}
        lacking = [
            f"{side} lacks {claim.measure} of seeds {listing(missing, 20)}"
            for side, missing in lost.items()
            if missing
        ]
        first, second = ([runs[side, s] for s in seeds if s not in lost[side]] for side in sides)
        if len({row.corpus for row in (*first, *second)}) > 1:
            lacking.append("the sides have no corpus in common")
        if not lacking:
            searches = [row for row in here if row.setting in sides and row.seed in SEARCH_SEEDS]
            cell.used = first, second
            cell.at_edge = [
                searched(
                    ledger,
                    side,
                    cell.dataset,
                    [row for row in searches if row.setting == side],
                ).is_at_edge
                for side in sides
            ]
            cell.minutes = sum(row.minutes for row in (*first, *second, *searches))
            newer = f"judged by code and settings of commit {state.commit}: of the newest "
            cell.notes = [newer + "; ".join(notes)] if notes else []
            older = sorted({row.code for row in (*first, *second)} & codes.keys())
            if older:
                cell.notes.append(f"carried: rows of code {listing(older, 20)}")
            return
        notes = notes or lacking
    cell.notes = notes


def _measure(ledger: Ledger, cell: Judgement, kept: Kept) -> None:
    """The numbers of a cell that has its runs, and its word where that needs no correction."""
    signs = ledger.signs(cell.claim)
    used = [*cell.used[0], *cell.used[1]]
    values = [
        [sum(sign * row.figures[f] for f, sign in signs.items()) for row in side]
        for side in cell.used
    ]
    first, second = ([_figures_and_ranks(row, kept) for row in side] for side in cell.used)
    by_image = image_differences(list(zip(first, second, strict=True)), signs)
    q = 0.0 if by_image is None else shared_deviation(by_image) / math.sqrt(by_image.shape[1])
    cell.is_seeds_only = by_image is None
    cell.differences = [round(a - b, DECIMALS) for a, b in zip(values[0], values[1], strict=True)]
    cell.levels = fmean(values[0]), fmean(values[1])
    cell.has_share = _is_clear_of_chance(cell, second, signs)
    cell.found = over_seeds(cell.differences, q)
    collapsed = [row for row in used if row.outcome == COLLAPSED]
    early = [row for row in used if not row.has_converged]
    untrained = _untrained_side(ledger, cell)
    cell.notes += [
        *_ending_notes([*collapsed, *early]),
        *_edge_notes(cell),
        *_setting_notes(ledger, cell),
    ]
    if early or len(collapsed) == len(used):
        cell.word = NOT_CONVERGED if early else COLLAPSED
    elif untrained:
        cell.word = NOT_COMPARABLE
        cell.notes.append(untrained)
    else:
        cell.word = "undecided"
        cell.p = p_value(cell.differences, q, cell.claim.region)


def _figures_and_ranks(row: Row, kept: Kept) -> FiguresAndRanks:
    path = kept.ranks / row.ranks
    is_without = row.outcome == COLLAPSED and not path.exists()
    return row.figures, None if is_without else read_ranks(path)


def _is_clear_of_chance(
    cell: Judgement, second: Sequence[FiguresAndRanks], signs: Iterable[str]
) -> bool:
    """Whether the second level is a measure for a share: at least CLEAR times chance, where the
    measure is a sum of recalls."""
    if any(row.outcome == COLLAPSED for row in cell.used[1]):
        return False
    known = next((ranks for _, ranks in second if ranks), None)
    random = chance_of(known, signs) if known else None
    return random is None or (cell.levels is not None and cell.levels[1] >= CLEAR * random)


def _untrained_side(ledger: Ledger, cell: Judgement) -> str:
    """Which of two settings of a model did not train, as text; "" for none, and where the paper
    says so of its own."""
    sides = (cell.claim.first, cell.claim.second)
    paper = ledger.published(cell.claim)
    if len({resolved_setting(ledger, side).model for side in sides}) > 1:
        return ""
    rows = [*cell.used[0], *cell.used[1]]
    name = next((key for key in LEVELS if all(key in row.figures for row in rows)), None)
    if name is None:
        return ""
    levels = [fmean(row.figures[name] for row in side) for side in cell.used]
    for side, other in ((0, 1), (1, 0)):
        is_said = bool(paper) and 0 <= paper[side] < TRAINED * paper[other]
        if levels[side] < TRAINED * levels[other] and not is_said:
            text = f"{name} {levels[side]:.1f}, below half of {sides[other]}'s {levels[other]:.1f}"
            return f"{sides[side]}: {text}"
    return ""


def _ending_notes(rows: Iterable[Row]) -> list[str]:
    """How runs that decide nothing, or collapsed, have ended, with their seeds."""
    endings: dict[str, list[int]] = {}
    for row in rows:
        text = row.outcome or f"best epoch {row.best_epoch} of at most {row.cap}"
        endings.setdefault(f"{row.setting}: {text}", []).append(row.seed)
    return [f"{text}, seeds {listing(seeds, 20)}" for text, seeds in endings.items()]


def _edge_notes(cell: Judgement) -> list[str]:
    """Settings whose search chose the first or the last of its factors: others may be better."""
    return [
        f"{rows[0].setting}: its search ended at its edge, factor {rows[0].factor:g}"
        for rows, is_at_edge in zip(cell.used, cell.at_edge, strict=True)
        if is_at_edge
    ]


def _setting_notes(ledger: Ledger, cell: Judgement) -> list[str]:
    """What claims.yaml notes of the settings."""
    sides = cell.claim.first, cell.claim.second
    notes = [(side, ledger.settings[side].note) for side in sides]
    return [f"{side}: {note}" for side, note in notes if note]
