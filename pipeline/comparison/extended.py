"""Figures by the corpus's own pairs and by extended positives, side by side."""

from collections.abc import Sequence
from typing import Any

from pipeline.comparison.results import Result
from pipeline.comparison.table import aligned, interval_text, rows_of, shown
from pipeline.evaluation.columns import COLUMNS, EXTENDED
from pipeline.evaluation.figures import Column, columns_of

SHOWN = ("r1", "mapr", "rprecision", "ndcg", "rsum")  # of all that metrics files have
OWN = frozenset(column.keys for column in COLUMNS)


def beside_rows(results: Sequence[Result]) -> list[list[str]]:
    """A head, a row per model and criterion and one of chance, with the interval of rsum by the
    list in the last column; none without extended positives."""
    record, by_name = results[0].record, {result.name: result for result in results}
    if results[0].extended is None:
        return []
    titles = [column.label + (" ext" if of_list else "") for column, of_list in _columns()]
    rows = [["model", *titles, f"{100 * record.confidence:g} %"]]
    for row in rows_of(results):
        result = by_name[row.model]
        extended = (result.extended or {})[row.criterion]
        limits = result.record.extended["intervals"].get(row.criterion)
        interval = interval_text(limits and limits["rsum"])
        rows.append([row.label, *_figures(row.figures, extended), interval])
    return [*rows, ["chance", *_figures(record.chance, record.extended["chance"]), ""]]


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
    lines = ["", "## Extended positives", "", explained(results), "", *aligned(rows)]
    return "\n".join(lines) + "\n"


def _columns() -> list[tuple[Column, bool]]:
    """The figures, each by the corpus's own pairs (False) if it has it, and by the list (True)."""
    columns = [column for column in columns_of(EXTENDED) if column.keys[-1] in SHOWN]
    cases = ((column, of_list) for column in columns for of_list in (False, True))
    return [(column, of_list) for column, of_list in cases if of_list or column.keys in OWN]


def _figures(plain: Any, extended: Any) -> list[str]:
    return [shown(column.of(extended if of_list else plain)) for column, of_list in _columns()]
