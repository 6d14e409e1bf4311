"""The table of kept runs, from which verdicts are computed again without running anything."""

import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import write_text
from vse_workbench.claims.ledger import FIGURES, Ledger, leaves, resolved, setting_digest
from vse_workbench.claims.recorded import Recorded

KEYS = ("setting", "dataset", "seed", "digest", "corpus", "code", "commit")
# What a run's figures do not depend on: where it takes place, how wide intervals are drawn, and by
# which other criteria its scores were ranked.
FREE = ("seed", "runtime", "evaluation.bootstrap", "evaluation.confidence", "inference.criteria")


@dataclass(frozen=True)
class Row:
    """One run of a setting; `corpus` and `code` as in Recorded."""

    setting: str
    dataset: str
    seed: int
    digest: str  # of what claims.yaml said of the setting then
    corpus: str
    code: str
    commit: str  # that the experiment started from
    figures: Mapping[str, float]  # by names such as i2t.r1

    @property
    def place(self) -> tuple[str, str, int, str, str, str]:
        """What identifies it; the commit does not where the code is the same."""
        return self.setting, self.dataset, self.seed, self.digest, self.corpus, self.code


def matching_rows(
    ledger: Ledger,
    wanted: Mapping[tuple[str, str], Mapping[str, Any]],
    model: str,
    run: Recorded,
    commit: str,
) -> list[Row]:
    """A row for each key of `wanted`, setting and dataset, whose params.yaml a run agrees with."""
    rows = []
    for (name, dataset), params in wanted.items():
        setting = resolved(ledger, name)
        criterion = setting.criterion or "naive"
        if setting.model != model or criterion not in run.metrics:
            continue
        free = tuple(f"{key}." for key in (*FREE, *["inference"] * (criterion == "naive")))
        read = {k: v for k, v in run.params.items() if not f"{k}.".startswith(free)}
        if any(key not in params or params[key] != value for key, value in read.items()):
            continue
        measured = {k: v for k, v in leaves(run.metrics[criterion]) if k in FIGURES}
        figures = {key: float(value) for key, value in measured.items() if math.isfinite(value)}
        own = name, dataset, run.params["seed"], setting_digest(ledger, name, dataset)
        rows.append(Row(*own, run.corpus, run.code, commit, figures))
    return rows


def merged(kept: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """Kept and new rows, sorted, each once; WorkbenchError where figures of one run differ."""
    rows = dict[tuple[str, str, int, str, str, str], Row]()
    for row in (*kept, *new):
        there = rows.setdefault(row.place, row)
        shared = there.figures.keys() & row.figures.keys()
        if any(there.figures[key] != row.figures[key] for key in shared):
            raise WorkbenchError(
                f"two runs of {row.setting} on {row.dataset}, seed {row.seed}, code {row.code}, "
                f"corpus {row.corpus} have different figures",
                "remove the wrong one's line from the table; machines and thread counts differ in "
                "the last bits, so measure a claim on one machine",
            )
    return sorted(rows.values(), key=lambda row: row.place)


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write the table, tabs between columns, figures in percent or ranks as metrics files have."""
    lines: list[tuple[Any, ...]] = [(*KEYS, *FIGURES)]
    for row in rows:
        figures = (row.figures.get(key, "") for key in FIGURES)
        lines.append((*(getattr(row, key) for key in KEYS), *figures))
    write_text(path, "".join("\t".join(map(str, line)) + "\n" for line in lines))


def read_rows(path: Path) -> list[Row]:
    """The table's rows, none when there is no such file; WorkbenchError for a wrong table."""
    if not path.exists():
        return []
    try:
        text = path.read_text(encoding="utf-8")
        table = pd.read_csv(io.StringIO(text), sep="\t", dtype=str, keep_default_na=False)
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError):
        table = pd.DataFrame()
    if lacking := [key for key in KEYS if key not in table.columns]:
        raise WorkbenchError(f"{path}: not a table of kept runs: no columns {listing(lacking)}")
    figures = [name for name in table.columns if name not in KEYS]
    records = enumerate(table.to_dict("records"), 2)  # lines of the file, the head is its first
    rows = [_row(path, line, record, figures) for line, record in records]
    for place, count in Counter(row.place for row in rows).items():
        if count > 1:
            text = "{}: two lines of {} on {}, seed {}, with the same code and corpus"
            raise WorkbenchError(text.format(path, *place), "keep one of them")
    return rows


def _row(path: Path, line: int, record: Mapping[Any, Any], figures: list[str]) -> Row:
    try:
        numbers = {name: float(record[name]) for name in figures if record[name]}
        if not all(map(math.isfinite, numbers.values())):
            raise ValueError
        named = {key: record[key] for key in KEYS}
        return Row(**(named | {"seed": int(record["seed"])}), figures=numbers)
    except ValueError:
        raise WorkbenchError(f"{path}, line {line}: a number cannot be read") from None
