"""The metrics there are, as constants: what writes or shows every figure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pipeline.evaluation.figures import Column, columns_of, extended_rows, plain_rows
from pipeline.evaluation.row import Metric

METRICS = plain_rows()
EXTENDED = extended_rows()
COLUMNS = columns_of(METRICS)
RECALL_NAME = re.compile("r[1-9][0-9]{0,8}")


def headings() -> list[str]:
    """Titles of the columns, the direction in the first of each alone."""
    first = METRICS[0].name
    return [column.label if first in column.keys else column.title for column in COLUMNS]


def rows_in(names: Iterable[str]) -> tuple[Metric, ...]:
    """The plain rows where figures or numbers have these names, r50 among them, say."""
    return plain_rows(int(name[1:]) for name in names if RECALL_NAME.fullmatch(name))


def columns_in(summary: Mapping[str, Any]) -> tuple[Column, ...]:
    """The figures of a summary, as plain metrics have them."""
    return columns_of(rows_in(summary["i2t"]))
