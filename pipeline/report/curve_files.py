"""Curve files, one row per epoch, as the report draws them."""

import csv
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.sealed import is_broken

COLUMNS = ("epoch", "loss", "val_rsum")
ERROR = "_error"  # how columns of shares that are classified wrongly end
FIT = "fit"  # the phase of a model that is not trained by steps
REMEDY = "write it again with: dvc repro train"


@dataclass(frozen=True)
class Curve:
    """Loss and validation rsum of one model, by E epochs."""

    epochs: list[float]
    loss: list[float]
    rsum: list[float]  # six recalls in percent, added
    # By what is classified, such as `image`: the share of the training batches that is classified
    # wrongly; NaN in epochs that classify nothing.
    errors: Mapping[str, list[float]] = field(default_factory=dict)
    phases: Sequence[str] = ()  # (E,) what each epoch belongs to, such as stage_2

    @property
    def turns(self) -> dict[float, str]:
        """By the first epoch of each phase but the first: its name."""
        epochs = zip(self.epochs, itertools.pairwise(["", *self.phases]), strict=False)
        return {epoch: phase for epoch, (before, phase) in epochs if before not in ("", phase)}

    @property
    def best(self) -> tuple[float, float]:
        """Epoch and validation rsum of the weights that were kept: the first largest rsum."""
        rsum = max(self.rsum)
        return self.epochs[self.rsum.index(rsum)], rsum


def read_curve(path: Path) -> Curve | None:
    """Read a tab-separated curve with at least the columns epoch, loss and val_rsum. None for a
    model that was fitted at once, as cca is: its rows are tries, and have no loss."""
    try:
        text = path.read_text(encoding="utf-8")
        rows = list(csv.DictReader(io.StringIO(text), delimiter="\t", strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise WorkbenchError(f"{path}: not a tab-separated table", REMEDY) from None
    if not rows:
        raise WorkbenchError(f"{path}: no epoch in it", REMEDY)
    if is_broken(text):
        raise WorkbenchError(f"{path}: cut short or changed: does not match its sha256", REMEDY)
    if all(row.get("phase") == FIT for row in rows):
        return None
    numbered = list(enumerate(rows, start=2))  # the header is line 1
    epochs, loss, rsum = ([_number(path, row, name) for row in numbered] for name in COLUMNS)
    found = {name.removesuffix(ERROR): name for name in rows[0] if str(name).endswith(ERROR)}
    errors = {
        short: [_number(path, row, name) if row[1][name] != "" else math.nan for row in numbered]
        for short, name in found.items()
    }
    return Curve(epochs, loss, rsum, errors, [row.get("phase") or "" for row in rows])


def _number(path: Path, numbered: tuple[int, dict[str, str]], column: str) -> float:
    line, row = numbered
    try:
        value = float(row[column])
    except (KeyError, TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise WorkbenchError(
            f"{path}, line {line}: {column} = {row.get(column)!r} is not a finite number", REMEDY
        )
    return value
