"""docs/claims.md, README's line about it, and what is printed: every cell with its verdict."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from textwrap import fill

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from scipy import stats

from pipeline.evaluation.truth import DIRECTIONS
from pipeline.runtime.errors import counted
from vse_workbench.claims.carrying import RERUNS_NEEDED, Rerun, equal_codes, find_reruns
from vse_workbench.claims.judgement import CLEAR, DRAWN, Judgement
from vse_workbench.claims.ledger import SEARCH_SEEDS, Claim, Ledger
from vse_workbench.claims.results import Kept, Row
from vse_workbench.claims.verdict import MEASURED, PREMISE, WITHDRAWN, WORDS

ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
)
LABELS = [
    label for word in WORDS for label in ([word, word + DRAWN] if word in MEASURED else [word])
]
LEVEL_FIGURES = ("i2t.r1", "t2i.r1", "rsum")
TOP = {"r1": 1, "r5": 5, "r10": 10}
PUBLISHED_IMAGES = 1000  # of the papers' test splits, or more
# around README's line
BEGIN = "<!-- claims -->\n"
END = "<!-- /claims -->\n"


def claims_page(ledger: Ledger, cells: Sequence[Judgement], kept: Kept, chart: str) -> str:
    """The document as Markdown.

    Args:
        ledger: the claims.
        cells: all that were judged.
        kept: the runs that there are.
        chart: the picture's name, or "".

    Returns:
        The text.
    """
    rows = kept.rows
    words = [label for label in LABELS if any(cell.label == label for cell in cells)]
    papers: dict[str, list[str]] = {}
    for name, claim in ledger.claims.items():
        papers.setdefault(claim.paper, []).append(name)
    pairs = Counter((cell.claim.paper, cell.label) for cell in cells)
    summary = {paper: [pairs[paper, word] for word in words] for paper in papers}
    both = [(c.found, c.published) for c in cells if c.found and c.published is not None]
    commits = dict.fromkeys(row.commit for row in rows)
    runs = {f"`{commit}`": [row for row in rows if row.commit == commit] for commit in commits}
    return ENVIRONMENT.get_template("claims.md").render(
        sentence=summary_sentence(ledger, cells),
        words=words,
        summary=summary | {"all": [sum(column) for column in zip(*summary.values(), strict=True)]},
        chart=chart,
        holding=sum(effect.low <= published <= effect.high for effect, published in both),
        intervals=len(both),
        papers=papers,
        cells={(cell.name, cell.dataset): cell for cell in cells},
        numbers=partial(_shown_numbers, ledger),
        in_paper=partial(_published_text, ledger),
        runs=runs | {"all": list(rows)},
        searched=SEARCH_SEEDS,
        ledger=ledger,
        notes=[cell for cell in cells if cell.found and cell.notes],
        settings=_level_rows(cells),
        again=_rerun_rows(kept),
        enough=RERUNS_NEEDED,
        explained=(PREMISE, WITHDRAWN),
        **_example_values(cells),
    )


def summary_sentence(ledger: Ledger, cells: Sequence[Judgement]) -> str:
    """How many cells have each verdict.

    Args:
        ledger: the claims.
        cells: those that are counted.

    Returns:
        Two sentences.
    """
    labels = Counter(cell.label for cell in cells)
    parts = [f"{label} {labels[label]}" for label in LABELS if labels[label]]
    tried = len({cell.name for cell in cells})
    datasets = len({cell.dataset for cell in cells})
    return (
        f"{tried} of {len(ledger.claims)} claims have a verdict on {counted(datasets, 'dataset')}. "
        f"Verdicts of {counted(len(cells), 'cell')}, each a claim on a dataset: {', '.join(parts)}."
    )


def renewed_readme(readme: str, ledger: Ledger, cells: Sequence[Judgement]) -> str:
    """README with its line about the claims.

    Args:
        readme: its text.
        ledger: the claims.
        cells: all that were judged.

    Returns:
        The text; unchanged where it has no markers.
    """
    before, begin, rest = readme.partition(BEGIN)
    line = fill(f"[The papers' claims](docs/claims.md): {summary_sentence(ledger, cells)}", 120)
    return f"{before}{begin}\n{line}\n\n{END}{rest.partition(END)[2]}" if begin else readme


def rows_of(ledger: Ledger, cells: Iterable[Judgement]) -> list[list[str]]:
    """Judgements for a terminal.

    Args:
        ledger: the claims.
        cells: those that are shown.

    Returns:
        Head and a row for each cell.
    """
    rows = [["claim", "dataset", "measure", "published", "difference", "", "", "verdict"]]
    for cell in cells:
        published = "no figures" if cell.published is None else f"{cell.published:+.1f}"
        columns = [cell.name, cell.dataset, cell.claim.measure, published]
        rows.append([*columns, *(_shown_numbers(ledger, cell)[:3] or [""] * 3), cell.label])
    return rows


def _shown_numbers(ledger: Ledger, cell: Judgement) -> list[str]:
    """The difference with its interval; its size and p; seeds and cost; R@1 of both settings, ""
    where they have none. [] where nothing ran"""
    effect = cell.found
    if effect is None or cell.levels is None:
        return []
    size = (
        _share_of_level(ledger, cell.claim, effect.mean, cell.levels[1]) if cell.has_share else []
    )
    if cell.corrected is not None:
        p = "p < 0.001" if cell.corrected < 0.001 else f"p {cell.corrected:.3f}"
        size.append(f"{p} of {cell.family}")
    interval = f"{effect.mean:+.1f} ({effect.low:+.1f} to {effect.high:+.1f})"
    seeds = f"n {len(cell.differences)}{' alone' if cell.is_seeds_only else ''}"
    sides = [", ".join(f"{value:.1f}" for value in side) for side in cell.first_places]
    first_places = f"R@1 {' against '.join(sides)}" if sides else ""
    return [interval, ", ".join(size), f"{seeds}, {cell.minutes:.0f} min", first_places]


def _share_of_level(ledger: Ledger, claim: Claim, difference: float, level: float) -> list[str]:
    """A difference as a share of a level; [] for a measure that itself is a difference."""
    signs = set(ledger.signs(claim).values())
    return [f"{100 * difference / abs(level):+.1f} %"] if level and len(signs) == 1 else []


def _published_text(ledger: Ledger, claim: Claim) -> str:
    """The paper's difference in points and as a share, and its dataset."""
    if claim.published is None:
        return "no figures"
    first, second = ledger.published(claim)
    share = _share_of_level(ledger, claim, first - second, second)
    figures = [figure.partition(".") for figure in ledger.measures[claim.measure]]
    if all(way in DIRECTIONS and kind in TOP for way, _, kind in figures):
        # of about as many images at random; the papers have more captions for each, or as many
        random = sum(100 * TOP[kind] / PUBLISHED_IMAGES for _, _, kind in figures)
        share = share if second >= CLEAR * random else []
    return "<br>".join([f"{first - second:+.1f}", *share, claim.published.on])


def _level_rows(cells: Sequence[Judgement]) -> list[dict[str, object]]:
    """R@1 and rsum of every setting that has a cell, by dataset, means over its seeds."""
    found: dict[tuple[str, str], Sequence[Row]] = {}
    for cell in cells:
        for side, rows in zip((cell.claim.first, cell.claim.second), cell.used, strict=True):
            if rows and all(figure in row.figures for row in rows for figure in LEVEL_FIGURES):
                found.setdefault((cell.dataset, side), rows)
    order = {dataset: number for number, dataset in enumerate(dict.fromkeys(on for on, _ in found))}
    return [
        {"dataset": on, "name": name, "n": len(rows)}
        | {"figures": [fmean(row.figures[figure] for row in rows) for figure in LEVEL_FIGURES]}
        for (on, name), rows in sorted(found.items(), key=lambda item: order[item[0][0]])
    ]


def _rerun_rows(kept: Kept) -> list[dict[str, object]]:
    """What was made again under other code, by the two lists of code."""
    found: dict[tuple[str, str], list[Rerun]] = {}
    for run in find_reruns(kept):
        found.setdefault((run.old.code, run.new.code), []).append(run)
    return [
        {
            "old": runs[0].old,
            "new": runs[0].new,
            "same": sum(run.is_same for run in runs),
            "all": len(runs),
            "is_carried": old in equal_codes(runs),
        }
        for (old, _), runs in found.items()
    ]


def _example_values(cells: Sequence[Judgement]) -> dict[str, object]:
    """What the worked example needs: of the first cell that was decided, else of the first."""
    judged = [cell for cell in cells if cell.p is not None and not cell.is_seeds_only]
    cell = min(judged, key=lambda cell: cell.word not in ("holds", "reversed"), default=None)
    if cell is None or cell.found is None:
        return {"example": None}
    n = len(cell.differences)
    t = float(stats.t.ppf(0.975, n - 1))
    seeds = t * cell.found.s / math.sqrt(n)
    images = 1.96 * cell.found.q
    return {
        "example": cell,
        "t": t,
        "seeds": seeds,
        "images": images,
        "half": math.hypot(seeds, images),
    }
