"""A CSV file with a header as a table of texts."""

import csv
from pathlib import Path

import pandas as pd

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import Problems, read_text


def read_csv(path: Path, expected: str) -> pd.DataFrame:
    """All fields as text, rows numbered as lines of the file where no field has a line end.

    Args:
        path: the file.
        expected: what should be in it, the hint of the error.

    Returns:
        A column of texts for each name in the first line.

    Raises:
        WorkbenchError: no CSV, columns of one name, or rows of another width.
    """
    try:
        header, *rows = [*csv.reader(read_text(path).splitlines())] or [[]]
    except csv.Error as error:
        raise WorkbenchError(f"{path}: not a CSV file: {error}", expected) from None
    lines = range(2, len(rows) + 2)
    problems = Problems(str(path))
    problems.add("columns more than once", sorted({n for n in header if header.count(n) > 1}))
    ragged = (line for line, row in zip(lines, rows, strict=True) if len(row) != len(header))
    problems.add("lines of another number of fields", ragged)
    problems.raise_if_any(expected)
    return pd.DataFrame(rows, index=lines, columns=header, dtype=object)
