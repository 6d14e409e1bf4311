"""docs/claims.md, README's line about it, and what is printed: every cell with its verdict."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from scipy import stats

from pipeline.comparison.paired import RESAMPLES
from pipeline.runtime.errors import counted
from vse_workbench.claims.judgement import Judgement
from vse_workbench.claims.ledger import SEARCHED, Claim, Ledger
from vse_workbench.claims.results import Row
from vse_workbench.claims.verdict import WORDS

ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
)
BEGIN, END = "<!-- claims -->\n", "<!-- /claims -->\n"  # around README's line
UNMET = "premise not met"


def page(ledger: Ledger, cells: Sequence[Judgement], rows: Sequence[Row], chart: str) -> str:
    """The document as Markdown. rows: all that are kept; chart: the picture's name or ""."""
    words = [word for word in WORDS if any(cell.word == word for cell in cells)]
    papers = dict.fromkeys(claim.paper for claim in ledger.claims.values())
    pairs = Counter((cell.claim.paper, cell.word) for cell in cells)
    summary = {paper: [pairs[paper, word] for word in words] for paper in papers}
    ends = [
        (c.low, c.published, c.high)
        for c in cells
        if c.low is not None and c.published is not None and c.high is not None
    ]
    titles = {name: dataset.title for name, dataset in ledger.datasets.items()}
    commits = dict.fromkeys(row.commit for row in rows)
    runs = {f"`{one}`": [row for row in rows if row.commit == one] for one in commits}
    return ENVIRONMENT.get_template("claims.md").render(
        sentence=sentence(ledger, cells),
        words=words,
        summary=summary | {"all": [sum(column) for column in zip(*summary.values(), strict=True)]},
        chart=chart,
        holding=sum(low <= published <= high for low, published, high in ends),
        intervals=len(ends),
        tables={paper: _table(ledger, paper, cells) for paper in papers},
        costs=[_cost(name, own) for name, own in (runs | {"all": list(rows)}).items()],
        measures=ledger.measures,
        notes=[
            (titles[c.dataset], c) for c in cells if c.notes and c.word not in (UNMET, "not run")
        ],
        **_example(ledger, cells),
    )


def sentence(ledger: Ledger, cells: Sequence[Judgement]) -> str:
    """How many cells have each verdict."""
    words = Counter(cell.word for cell in cells)
    parts = [f"{word} {words[word]}" for word in WORDS if words[word]]
    tried, datasets = len({cell.name for cell in cells}), len({cell.dataset for cell in cells})
    return (
        f"{tried} of {len(ledger.claims)} claims are tried, on {counted(datasets, 'dataset')}. "
        f"Verdicts of {counted(len(cells), 'cell')}, each a claim on a dataset: {', '.join(parts)}."
    )


def renewed(readme: str, ledger: Ledger, cells: Sequence[Judgement]) -> str:
    """README with its line about the claims; unchanged where it has no markers."""
    before, begin, rest = readme.partition(BEGIN)
    line = fill(f"[The papers' claims](docs/claims.md): {sentence(ledger, cells)}", 120)
    return f"{before}{begin}\n{line}\n\n{END}{rest.partition(END)[2]}" if begin else readme


def rows_of(ledger: Ledger, cells: Iterable[Judgement]) -> list[list[str]]:
    """Head and a row for each cell, for a terminal."""
    rows = [["claim", "dataset", "measure", "published", "difference", "", "", "verdict"]]
    for cell in cells:
        published = "no figures" if cell.published is None else f"{cell.published:+.1f}"
        own = [cell.name, cell.dataset, cell.claim.measure, published]
        rows.append([*own, *(_numbers(ledger, cell) or [""] * 3), cell.word])
    return rows


def _numbers(ledger: Ledger, cell: Judgement) -> list[str]:
    """The difference with its interval; its size and p; seeds and cost. [] where nothing ran"""
    if cell.mean is None or cell.levels is None:
        return []
    size = _share(ledger, cell.claim, cell.mean, cell.levels[1])
    if cell.corrected is not None:
        size.append("p < 0.001" if cell.corrected < 0.001 else f"p {cell.corrected:.3f}")
    found = f"{cell.mean:+.1f} ({cell.low:+.1f} to {cell.high:+.1f})"
    cost = f"n {cell.n}{'' if cell.q is not None else ' alone'}, {cell.minutes:.0f} min"
    return [found, ", ".join(size), cost]


def _share(ledger: Ledger, claim: Claim, difference: float, level: float) -> list[str]:
    """A difference as a share of a level; [] for a measure that itself is a difference."""
    falls = {figure.startswith("-") for figure in ledger.measures[claim.measure]}
    return [f"{100 * difference / abs(level):+.1f} %"] if level and len(falls) == 1 else []


def _table(
    ledger: Ledger, paper: str, cells: Iterable[Judgement]
) -> tuple[list[str], list[list[str]], list[str]]:
    """Head and a row for each claim: what came out on each dataset, what it says, what was
    published; and the claims without a dataset."""
    tried = {(cell.name, cell.dataset): cell for cell in cells if cell.claim.paper == paper}
    datasets = [name for name in ledger.datasets if name in {on for _, on in tried}]
    claims = {name: one for name, one in ledger.claims.items() if one.paper == paper}
    rows = []
    for name, claim in claims.items():
        margin = "" if claim.at_most is None else f" Margin: at most {claim.at_most:+g}."
        if claim.within is not None:
            margin = f" Margin: ±{claim.within:g}."
        text = f"{claim.says}{margin}<br>`{name}`, {claim.measure}; {claim.place}"
        verdicts = [_cell(ledger, tried.get((name, on))) for on in datasets]
        if claim.datasets:
            rows.append([*verdicts, text, _published(ledger, claim)])
    head = [*(ledger.datasets[name].title for name in datasets), "claim", "published"]
    return head, rows, [name for name, claim in claims.items() if not claim.datasets]


def _published(ledger: Ledger, claim: Claim) -> str:
    """The paper's difference in points and as a share, and its dataset."""
    if claim.published is None:
        return "no figures"
    signs = [-1 if figure[0] == "-" else 1 for figure in ledger.measures[claim.measure]]
    first, second = (
        sum(sign * value for sign, value in zip(signs, side, strict=True))
        for side in (claim.published.first, claim.published.second)
    )
    share = _share(ledger, claim, first - second, second)
    return "<br>".join([f"{first - second:+.1f}", *share, claim.published.on])


def _cell(ledger: Ledger, cell: Judgement | None) -> str:
    """The verdict, bold where it rests on numbers, and these below it."""
    if cell is None:
        return ""
    numbers = _numbers(ledger, cell)
    if numbers:
        return "<br>".join([f"**{cell.word}**", *filter(None, numbers)])
    return "<br>".join([cell.word, *(cell.notes if cell.word == UNMET else [])])


def _example(ledger: Ledger, cells: Sequence[Judgement]) -> dict[str, Any]:
    """What the worked example needs: of the first cell that was decided, else of the first."""
    judged = [cell for cell in cells if cell.p is not None and cell.q is not None]
    judged.sort(key=lambda cell: cell.word not in ("holds", "reversed"))
    if not judged:
        return {"example": None}
    cell, where = judged[0], ledger.datasets[judged[0].dataset].title
    t = float(stats.t.ppf(0.975, cell.n - 1))
    seeds, images = t * (cell.s or 0) / math.sqrt(cell.n), 1.96 * (cell.q or 0)
    parts = {"t": t, "seeds": seeds, "images": images, "half": math.hypot(seeds, images)}
    return {"example": cell, "where": where, "draws": f"{RESAMPLES:,}"} | parts


def _cost(name: str, rows: Sequence[Row]) -> tuple[str, int, int, str]:
    """What runs are called, how many they are, how many of the search, and their CPU-hours."""
    searches, minutes = sum(row.seed == SEARCHED for row in rows), sum(row.minutes for row in rows)
    return name, len(rows), searches, f"{minutes / 60:.1f}"
