"""The tables of all models: what each reaches, what chance would, and how sure the figures are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pipeline.comparison.results import NAIVE, Result
from pipeline.evaluation.columns import columns_in
from pipeline.evaluation.figures import RECALLS, Column
from pipeline.runtime.errors import counted

# Only the page shows these, so that the table fits a terminal; a metric of your own is shown.
HIDDEN = ("medr", "meanr", "mapr")
APART = "Transductive, with all test queries at once: compare these only with each other"
BEHIND = (
    "Behind: how far rsum is below that of the first model, and the interval of this difference "
    "by a paired bootstrap; one that holds 0 is within noise."
)
DISTANCES = (
    "Are these distances? Larger scores must be better: change the sign of distances. Equal scores "
    "count against a model."
)


@dataclass(frozen=True)
class TableRow:
    model: str
    criterion: str
    figures: Mapping[str, Any]
    interval: Sequence[float] | None  # [low, high] of rsum, None without resamples

    @property
    def label(self) -> str:
        """ "vse", or "vse + csls" for another criterion than naive."""
        return self.model if self.criterion == NAIVE else f"{self.model} + {self.criterion}"


def rows_of(results: Sequence[Result]) -> list[TableRow]:
    """A row per model and criterion: the naive ones by falling rsum, then all others by theirs."""
    rows = []
    for result in results:
        for criterion, figures in result.criteria.items():
            limits = result.record.intervals.get(criterion)
            rows.append(TableRow(result.name, criterion, figures, limits and limits["rsum"]))
    return sorted(rows, key=lambda row: (row.criterion != NAIVE, -row.figures["rsum"]))


def groups_of(results: Sequence[Result]) -> list[list[TableRow]]:
    """The rows of the naive criterion; then those of transductive ones, if there are any."""
    groups = groupby(rows_of(results), lambda row: row.criterion != NAIVE)
    return [list(rows) for _, rows in groups]


def best_of(rows: Sequence[TableRow]) -> list[list[bool]]:
    """For each row and figure, whether none is better as printed; all False for a single row."""
    signs = {c: 1 if c.better == "larger" else -1 for c in columns_in(rows[0].figures)}
    table = [[s * float(shown(c.of(row.figures))) for c, s in signs.items()] for row in rows]
    best, several = [max(values) for values in zip(*table, strict=True)], len(rows) > 1
    return [[several and a == top for a, top in zip(row, best, strict=True)] for row in table]


def notes(results: Sequence[Result]) -> list[str]:
    """What must be known to read the table, a line each."""
    rows, chance = rows_of(results), results[0].record.chance["rsum"]
    external = [result.name for result in results if result.external]
    shortlists = [
        f"{result.name}: {result.shortlist} of {result.images:,} images per caption "
        f"were scored in full, all others were moved behind them{_held(result)}."
        for result in results
        if result.shortlist is not None and result.shortlist < result.images
    ]
    costs = [
        f"{result.name}: {of['second']} orders the best {of['top']:,} of {of['first']} and scores "
        f"{of['i2t']:.1f} % (image queries) and {of['t2i']:.1f} % (caption queries) of all pairs."
        for result in results
        if (of := result.rerank)
    ]
    judged = [(row, row.interval) for row in rows if row.interval]
    worse = [row for row, (_, high) in judged if high < chance]
    lost = [row.label for row, (low, high) in judged if low <= chance <= high]
    programs = f"Scores of other programs, no ranking loss of ours: {', '.join(external)}."
    said = [*([programs] if external else []), *shortlists, *costs]
    if lost:
        said.append(f"Cannot be told from chance: {', '.join(lost)}.")
    if worse:
        asked = f" {DISTANCES}" if any(row.model in external for row in worse) else ""
        said.append(f"Worse than chance: {', '.join(row.label for row in worse)}.{asked}")
    return said


def _held(result: Result) -> str:
    held = result.criteria[NAIVE].get("in_shortlist")
    if held is None:
        return ""
    ways = f"{shown(held['i2t'])} % of the images and {shown(held['t2i'])} % of the captions"
    return f"; a true pair is among these for {ways}"


def images_of(result: Result) -> str:
    """How many images were evaluated: "5,000 images", or "the first 1,000 of 5,000 images"."""
    first = "" if result.test_images is None else f"the first {len(result.record.image_ids):,} of "
    return first + counted(result.images, "image")


def shown(value: float) -> str:
    return f"{value:.1f}"


def described(
    results: Sequence[Result], dataset: str, behind: Mapping[str, Any] | None = None
) -> list[str]:
    """What was evaluated, what must be known to read the tables, and the tables, as markdown.
    behind: what `standing.behind_first` found."""
    record = results[0].record
    return [
        f"Dataset {dataset}. Test split: {images_of(results[0])}, "
        f"{counted(len(record.caption_ids), 'caption')}, protocol {record.protocol}.",
        f"Recalls in percent; i2t: image queries, t2i: caption queries; {_share(results)}: "
        "bootstrap interval of rsum.",
        *([BEHIND] if behind else []),
        *notes(results),
        "",
        *tables(results, behind),
    ]


def tables(results: Sequence[Result], behind: Mapping[str, Any] | None = None) -> list[str]:
    """The table of the naive criterion and, after a sentence, that of transductive ones: recalls,
    rsum and its interval, sorted by rsum; aligned, as markdown and terminals show it."""
    chance = results[0].record.chance
    every = columns_in(results[0].criteria[NAIVE])
    columns = [column for column in every if column.keys[-1] not in HIDDEN]
    titles = [c.label if c.keys[-1] == RECALLS[0] else c.title for c in columns]
    plain, *others = groups_of(results)
    head = ["model", *titles, _share(results)]
    body = [_cells(row, columns) for row in plain]
    body.append(["chance", *(shown(column.of(chance)) for column in columns), ""])
    if behind:
        head.append("behind")
        body = [[*row, behind[row[0]].amount if row[0] in behind else ""] for row in body]
    lines = aligned([head, *body])
    for rows in others:
        criteria = ", ".join(dict.fromkeys(row.criterion for row in rows))
        lines += ["", f"{APART} ({criteria}):", ""]
        lines += aligned([head[: len(columns) + 2], *(_cells(row, columns) for row in rows)])
    return lines


def _cells(row: TableRow, columns: Sequence[Column]) -> list[str]:
    figures = (shown(column.of(row.figures)) for column in columns)
    return [row.label, *figures, interval_text(row.interval)]


def _share(results: Sequence[Result]) -> str:
    return f"{100 * results[0].record.confidence:g} %"


def interval_text(interval: Sequence[float] | None) -> str:
    """ "232.1 to 283.5", or a dash where no intervals were drawn."""
    return "-" if interval is None else f"{shown(interval[0])} to {shown(interval[1])}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A markdown table with columns padded to one width; the first row is the head."""
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append(f"| {' | '.join([first.ljust(widths[0]), *cells])} |")
    rule = "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])])
    return [lines[0], f"|{rule}|", *lines[1:]]
