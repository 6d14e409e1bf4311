"""One table of all models: what each reaches, what chance would, and how sure the figures are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.comparison.results import NAIVE, Result
from pipeline.evaluation.columns import COLUMNS, headings
from pipeline.evaluation.figures import values_of


@dataclass(frozen=True)
class TableRow:
    """One model under one criterion."""

    model: str
    criterion: str
    figures: Mapping[str, Any]
    interval: tuple[float, float] | None  # of rsum, None without resamples

    @property
    def label(self) -> str:
        """ "vse", or "vse + csls" for another criterion than naive."""
        return self.model if self.criterion == NAIVE else f"{self.model} + {self.criterion}"

    @property
    def is_transductive(self) -> bool:
        """Whether scores of other test queries changed the ranking of a query."""
        return self.criterion != NAIVE


def rows_of(results: Sequence[Result]) -> list[TableRow]:
    """A row per model and criterion, in the order of the models, naive first."""
    rows = []
    for result in results:
        for criterion, figures in result.criteria.items():
            limits = result.record.intervals.get(criterion)
            interval = None if limits is None else (limits["rsum"][0], limits["rsum"][1])
            rows.append(TableRow(result.name, criterion, figures, interval))
    return rows


def best_of(rows: Sequence[TableRow]) -> list[list[bool]]:
    """For each row and figure, whether none is better as printed; all False for a single row."""
    table = [[float(shown(value)) for value in values_of(row.figures)] for row in rows]
    if len(rows) < 2:
        return [[False] * len(values) for values in table]
    best = [
        max(values) if column.better == "larger" else min(values)
        for column, values in zip(COLUMNS, zip(*table, strict=True), strict=True)
    ]
    return [[value == top for value, top in zip(row, best, strict=True)] for row in table]


def notes(results: Sequence[Result]) -> list[str]:
    """What must be known to read the table, a line each."""
    rows, chance = rows_of(results), results[0].record.chance["rsum"]
    external = [result.name for result in results if result.is_external]
    transductive = dict.fromkeys(row.criterion for row in rows if row.is_transductive)
    shortlists = [
        f"{result.name}: {result.shortlist} of {result.images:,} images per caption "
        "were scored in full, all others were moved behind them."
        for result in results
        if result.shortlist is not None and result.shortlist < result.images
    ]
    lost = [row.label for row in rows if row.interval and row.interval[0] <= chance]

    def line(text: str, names: Iterable[str]) -> list[str]:
        return [f"{text}: {', '.join(names)}."] if names else []

    return [
        *line("Scores of other programs, no ranking loss of ours", external),
        *line("Transductive, scores change with the other test queries", transductive),
        *shortlists,
        *line("Cannot be told from chance", lost),
    ]


def images_of(result: Result) -> str:
    """How many images were evaluated: "5,000", or "the first 1,000 of 5,000"."""
    count = f"{len(result.record.image_ids):,}"
    return count if result.test_images is None else f"the first {count} of {result.images:,}"


def shown(value: float) -> str:
    """A figure as printed everywhere, one decimal."""
    return f"{value:.1f}"


def report(results: Sequence[Result], dataset: str, loss: str) -> str:
    """The comparison as markdown that is aligned for reading on a terminal, too."""
    lines = ["# Comparison of models", "", *described(results, f"{dataset}, ranking loss {loss}")]
    return "\n".join(lines) + "\n"


def described(results: Sequence[Result], dataset: str) -> list[str]:
    """The table and what must be known to read it, as lines of markdown."""
    record, rows, body = results[0].record, rows_of(results), []
    for row, best in zip(rows, best_of(rows), strict=True):
        texts = map(shown, values_of(row.figures))
        cells = [f"**{text}**" if top else text for text, top in zip(texts, best, strict=True)]
        body.append([row.label, *cells, interval_text(row.interval)])
    chance = [shown(value) for value in values_of(record.chance)]
    share = f"{100 * record.confidence:g} %"
    return [
        f"Dataset {dataset}. Test split: {images_of(results[0])} images, "
        f"{len(record.caption_ids):,} captions, protocol {record.protocol}.",
        f"Recalls in percent; i2t: image queries, t2i: caption queries; {share}: bootstrap "
        "interval of rsum.",
        *notes(results),
        "",
        *aligned([["model", *headings(), share], *body, ["chance", *chance, ""]]),
    ]


def brief(results: Sequence[Result]) -> list[str]:
    """Lines of a narrow table for a terminal: R@1 both ways and rsum with its interval."""
    columns = [column for column in COLUMNS if column.keys[-1] in ("r1", "rsum")]
    rows = [
        [row.label, *(shown(c.of(row.figures)) for c in columns), interval_text(row.interval)]
        for row in rows_of(results)
    ]
    chance = [shown(column.of(results[0].record.chance)) for column in columns]
    head = ["model", *(column.label for column in columns), "interval"]
    return aligned([head, *rows, ["chance", *chance, ""]])


def interval_text(interval: tuple[float, float] | None) -> str:
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
