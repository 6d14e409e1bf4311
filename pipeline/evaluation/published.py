"""A paper's figures beside those measured here: the difference, and whether it lies within noise.

Only figures of the same test split and protocol are compared. Those of another are named as such.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from pydantic import ValidationError

from pipeline.evaluation.comparison import (
    Result,
    aligned,
    certificate_of,
    interval_text,
    rows_of,
    shown,
)
from pipeline.evaluation.figures import RECALLS, Column
from pipeline.evaluation.known_splits import SPLITS, Certificate
from pipeline.evaluation.paper_rows import OTHER_SPLIT, PublishedConfig
from pipeline.evaluation.rank_file import COLUMNS
from pipeline.evaluation.truth import DIRECTIONS
from pipeline.runtime.errors import WorkbenchError

HEAD = ("model", "figure", "here", "interval", "published", "difference", "lies")
INSIDE = "inside the interval"
OUTSIDE = "outside"
NO_INTERVAL = "no interval"
NOTE = (
    "Inside: the published figure lies in the interval of the one measured here, so other test "
    "images could explain the difference; other training seeds are not counted."
)
SUMMED = tuple(product(DIRECTIONS, RECALLS))  # whose sum is rsum


@dataclass(frozen=True)
class Measured:
    """What a model reaches under one criterion, to stand beside published figures.

    Attributes:
        model: its name.
        criterion: "naive" or another.
        figures: as `figures.summarise`, recalls in percent.
        intervals: the same with [low, high], None without resamples.
        certificate: which known test split was evaluated.
    """

    model: str
    criterion: str
    figures: Mapping[str, Any]
    intervals: Mapping[str, Any] | None
    certificate: Certificate


@dataclass(frozen=True)
class Beside:
    """One published row and what was measured for it.

    Attributes:
        row: the published one.
        why_not: why it is not compared, empty where it is.
        lines: cells of a table with HEAD, one line a figure; none where it is not compared.
    """

    row: PublishedConfig
    why_not: str
    lines: list[list[str]]

    @property
    def source(self) -> str:
        """ "scan: Lee et al. 2018, SCAN, table 1, t-i AVG", and what the paper did otherwise."""
        row = self.row
        differs = f" What differs: {row.differs.rstrip('.')}." if row.differs else ""
        text = f"{_label(row)}: {row.paper}, {row.table}, {row.row}"
        if not self.why_not:
            return f"{text}.{differs}"
        figures = ", ".join(
            f"{column.label} {value:g}"
            for column, value in zip(_columns(row), row.figures().values(), strict=True)
        )
        return f"Not compared, {text} ({figures}): {self.why_not}.{differs}"


def measured_rows(results: Sequence[Result]) -> list[Measured]:
    """What all models of a comparison reach, a row for each of the table's."""
    records = {result.name: result.record for result in results}
    certificate = certificate_of(results[0].record)
    return [
        Measured(
            model=row.model,
            criterion=row.criterion,
            figures=row.figures,
            intervals=records[row.model].intervals.get(row.criterion),
            certificate=certificate,
        )
        for row in rows_of(results)
    ]


def set_beside(published: Sequence[PublishedConfig], measured: Sequence[Measured]) -> list[Beside]:
    """Every published row with what was measured for it.

    Args:
        published: rows of papers' tables, from params.yaml.
        measured: what models reach here.

    Returns:
        One for each published row, in their order.
    """
    found = {(own.model, own.criterion): own for own in measured}
    beside = []
    for row in published:
        own = found.get((row.model, row.criterion))
        why_not = "no such result here" if own is None else _why_not(row, own.certificate)
        lines = [] if own is None or why_not else _lines(row, own)
        beside.append(Beside(row, why_not, lines))
    return beside


def _why_not(row: PublishedConfig, certificate: Certificate) -> str:
    """Why a row cannot be compared with what was measured, empty where it can."""
    here = f"measured was {certificate.text}"
    if row.split == OTHER_SPLIT:
        return f"of other test images; {here}"
    if certificate.name != row.split:
        return f"of another split, {SPLITS[row.split].title}; {here}"
    if not certificate.is_complete:
        return f"of the whole split; {here}"
    return ""


def _lines(row: PublishedConfig, own: Measured) -> list[list[str]]:
    published = list(row.figures().values())
    columns = list(_columns(row))
    given = row.figures()
    if all(key in given for key in SUMMED):
        columns.append(COLUMNS[-1])
        published.append(sum(given[key] for key in SUMMED))
    lines = []
    for column, value in zip(columns, published, strict=True):
        here = float(column.of(own.figures))
        interval = None if own.intervals is None else column.of(own.intervals)
        if interval is None:
            place = NO_INTERVAL
        else:
            # as printed: a paper gives one decimal
            low, high = (round(float(end), 1) for end in interval)
            place = INSIDE if low <= value <= high else OUTSIDE
        difference = f"{here - value:+z.1f}"
        cells = [_label(row), column.label, shown(here), interval_text(interval)]
        lines.append([*cells, shown(value), difference, place])
    return lines


def _label(row: PublishedConfig) -> str:
    return row.model if row.criterion == "naive" else f"{row.model} + {row.criterion}"


def _columns(row: PublishedConfig) -> list[Column]:
    """The columns of the figures that a row gives, in its order."""
    by_keys = {column.keys: column for column in COLUMNS}
    return [by_keys[keys] for keys in row.figures()]


def published_text(beside: Sequence[Beside]) -> list[str]:
    """The published rows beside the measured, as markdown for a terminal, too.

    Args:
        beside: as `set_beside`.

    Returns:
        Lines: a table of what is compared, then the sources; none without published rows.
    """
    if not beside:
        return []
    rows = [line for own in beside for line in own.lines]
    table = [*aligned([HEAD, *rows]), "", NOTE, ""] if rows else []
    return [*table, *(f"- {own.source}" for own in beside)]


def published_report(beside: Sequence[Beside]) -> str:
    """The section of the comparison in markdown; empty without published rows."""
    lines = published_text(beside)
    if not lines:
        return ""
    return "\n".join(["", "## Published figures", "", *lines]) + "\n"


def published_of(values: Mapping[str, Any], where: str) -> list[PublishedConfig]:
    """The published rows of a params.yaml that nothing has checked, such as another revision's.

    Args:
        values: its content.
        where: its name, for messages.

    Returns:
        The rows; none where the file, of an earlier version, has no such key.

    Raises:
        WorkbenchError: rows of another form.
    """
    rows = values.get("published") or []
    try:
        return [PublishedConfig.model_validate(row) for row in rows]
    except (ValidationError, TypeError) as error:
        problem = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise WorkbenchError(
            f"{where}: published: {problem}", "the comments of params.yaml list the keys of an item"
        ) from None
