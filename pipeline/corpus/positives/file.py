"""One's own list of positives: .csv or .parquet with image_id, caption_id and perhaps grade."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.corpus.dataset.positives import read_csv
from pipeline.features.arrays.parquet import opened
from pipeline.runtime.errors import WorkbenchError, damage_named, listing
from pipeline.runtime.text import Problems

NEEDS_PATH = True
OWN_IDS = True
IDS = ["image_id", "caption_id"]
EXPECTED = "expected are the columns image_id, caption_id and, where pairs differ in it, grade"


def read(path: Path, threshold: float = 0.0) -> pd.DataFrame:
    """The pairs of one's own list.

    Args:
        path: a .csv or .parquet file.
        threshold: not used: every pair in the list counts.

    Returns:
        Columns image_id, caption_id, grade (float32 above 0, 1 where the list has none), i2t and
        t2i (true).

    Raises:
        WorkbenchError: another file, other columns, rows without an id, pairs twice, or a grade
            that is no number above 0.
    """
    if not path.is_file() or path.suffix not in (".csv", ".parquet"):
        raise WorkbenchError(f"corpus.positives_path: {path}: no .csv or .parquet file", EXPECTED)
    table = read_csv(path, EXPECTED) if path.suffix == ".csv" else _parquet(path)
    _check_columns(path, list(table.columns))
    if table.empty:
        raise WorkbenchError(f"{path}: no pairs", EXPECTED)
    if "grade" not in table:
        table = table.assign(grade=1.0)
    with np.errstate(over="ignore", under="ignore"):  # to infinity and 0, which are refused
        grades = pd.to_numeric(table["grade"], errors="coerce").astype(np.float32)
    table = table.assign(grade=grades)

    def named(rows: "pd.Series[bool]") -> list[str]:
        return [f"{row.image_id} and {row.caption_id}" for row in table[rows].itertuples()]

    empty = (table[IDS].isna() | (table[IDS] == "")).any(axis=1)
    problems = Problems(str(path))
    problems.add("rows without an id", (f"row {row + 1}" for row in empty.to_numpy().nonzero()[0]))
    problems.add("pairs more than once", dict.fromkeys(named(table.duplicated(IDS))))
    wrong = ~((grades > 0) & (grades < float("inf")))
    problems.add("pairs whose grade is no number above 0", named(wrong))
    problems.raise_if_any("mend the list")
    return table.assign(i2t=True, t2i=True)


def _parquet(path: Path) -> pd.DataFrame:
    """A list in parquet, its ids as texts whatever their type is."""
    with damage_named(str(path), EXPECTED):
        with opened(path) as file:
            _check_columns(path, file.schema_arrow.names)
            table = file.read()
        table.validate(full=True)
        types = {name: pa.string() if name in IDS else pa.float64() for name in table.column_names}
        return pd.DataFrame({n: table[n].cast(kind).to_pandas() for n, kind in types.items()})


def _check_columns(path: Path, names: list[str]) -> None:
    """Raise WorkbenchError for other columns than ids and, perhaps, a grade."""
    if sorted(names) not in (sorted(IDS), sorted([*IDS, "grade"])):
        raise WorkbenchError(f"{path}: columns are {listing(names) or 'none'}", EXPECTED)
