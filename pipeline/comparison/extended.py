"""Figures by the corpus's own pairs and by extended positives, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.comparison.results import Result
from pipeline.comparison.table import aligned, interval_text, rows_of, shown
from pipeline.evaluation.columns import COLUMNS, EXTENDED
from pipeline.evaluation.figures import Column, columns_of

SHOWN = ("r1", "mapr", "rprecision", "ndcg", "rsum")  # of all that metrics files have
OWN = frozenset(column.keys for column in COLUMNS)


@dataclass(frozen=True)
class Beside:
    """One model under one criterion."""

    label: str  # as in the table of all models
    figures: list[float]  # in the order of `headings`, those by own pairs before those by the list
    interval: tuple[float, float] | None  # [low, high] of rsum by the list, None without resamples


def headings() -> list[str]:
    """Titles of the figures: "i2t R@1", and "i2t R@1 ext" for the same by the list."""
    titles: list[str] = []
    for column in _columns():
        titles += [column.label] if column.keys in OWN else []
        titles.append(f"{column.label} ext")
    return titles


def beside_rows(results: Sequence[Result]) -> list[Beside]:
    """A row per model and criterion and one of chance; none without extended positives."""
    if results[0].extended is None:
        return []
    by_name, beside = {result.name: result for result in results}, []
    for row in rows_of(results):
        result = by_name[row.model]
        extended = (result.extended or {})[row.criterion]
        limits = result.record.extended["intervals"].get(row.criterion)
        interval = None if limits is None else (limits["rsum"][0], limits["rsum"][1])
        beside.append(Beside(row.label, _figures(row.figures, extended), interval))
    record = results[0].record
    return [*beside, Beside("chance", _figures(record.chance, record.extended["chance"]), None)]


def explained(results: Sequence[Result]) -> str:
    """Which list it is, how many queries it judges, and what the titles mean."""
    extended, record = results[0].extended or {}, results[0].record
    queries = extended["queries"]
    return (
        f"Positives {extended['positives']}: {extended['pairs']:,} pairs; ext: of the "
        f"{queries['i2t']:,} of {len(record.image_ids):,} images and {queries['t2i']:,} of "
        f"{len(record.caption_ids):,} captions that the list judges, against all items. "
        "R-P: R-precision; the interval is of rsum ext."
    )


def extended_report(results: Sequence[Result]) -> str:
    """The section of the comparison in markdown; empty without extended positives."""
    rows = beside_rows(results)
    if not rows:
        return ""
    share = f"{100 * results[0].record.confidence:g} %"
    body = [
        [row.label, *map(shown, row.figures), interval_text(row.interval) if row.interval else ""]
        for row in rows
    ]
    lines = ["", "## Extended positives", "", explained(results), ""]
    return "\n".join([*lines, *aligned([["model", *headings(), share], *body])]) + "\n"


def _columns() -> list[Column]:
    return [column for column in columns_of(EXTENDED) if column.keys[-1] in SHOWN]


def _figures(own: Any, extended: Any) -> list[float]:
    figures: list[float] = []
    for column in _columns():
        figures += [column.of(own)] if column.keys in OWN else []
        figures.append(column.of(extended))
    return figures
