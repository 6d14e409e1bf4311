"""The metrics there are, as constants: what writes or shows every figure."""

from pipeline.evaluation.figures import columns_of, extended_rows, plain_rows

METRICS = plain_rows()
EXTENDED = extended_rows()
COLUMNS = columns_of(METRICS)


def headings() -> list[str]:
    """Titles of the columns, the direction in the first of each alone."""
    first = METRICS[0].name
    return [column.label if first in column.keys else column.title for column in COLUMNS]
