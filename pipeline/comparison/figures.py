"""The figures that ranks give, and whether a metrics file is of the same run."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.evaluation.bootstrap import MeasuredFold
from pipeline.evaluation.file import QueryRanks
from pipeline.evaluation.folds import cut_folds
from pipeline.evaluation.metrics import COLUMNS, average, summarise, values_of
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.groups import group_codes

PROTOCOL = re.compile(r"full|first_[0-9]+k?|[0-9]+k?_x([1-9][0-9]{0,5})")
TOLERANCE = 1e-3  # metrics files hold four decimals


def figures(folds: Sequence[MeasuredFold]) -> list[float]:
    """The figures in the order of FIGURES, means over the folds."""
    return values_of(average([summarise(fold.measured) for fold in folds]))


def measured_folds(run: QueryRanks) -> list[MeasuredFold]:
    """What the queries of a run reach, cut into the folds of its protocol."""
    match = PROTOCOL.fullmatch(run.protocol)
    if not match:
        raise WorkbenchError(f"unknown protocol {run.protocol!r}", "run: dvc repro evaluate")
    images, captions = group_codes(run.i2t.groups, run.t2i.groups)
    return [
        MeasuredFold(
            {
                "i2t": run.i2t.measured.of(fold.images),
                "t2i": run.t2i.measured.of(fold.captions),
            },
            *group_codes(images[fold.images], captions[fold.captions]),
        )
        for fold in cut_folds(images, captions, int(match[1] or 1))
    ]


def check_figures(path: Path, written: Mapping[str, Any], run: QueryRanks) -> None:
    """Raise WorkbenchError unless a metrics file has the figures that ranks give.

    Args:
        path: of the metrics file.
        written: its figures under the criterion of the ranks, nested as a metrics file has them.
        run: the ranks.
    """
    found = figures(measured_folds(run))
    for column, value in zip(COLUMNS, found, strict=True):
        told: Any = written
        for key in column.keys:
            told = told.get(key, math.nan) if isinstance(told, Mapping) else math.nan
        if not abs(told - value) <= TOLERANCE:  # NaN compares false
            raise WorkbenchError(
                f"{path}: {'.'.join(column.keys)} {told:.4f}, but its rank file gives "
                f"{value:.4f}: not of the same run",
                "bring both to the same state with: dvc checkout, or dvc repro evaluate",
            )
