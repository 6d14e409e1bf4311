"""Curve files, one row per epoch, as the report draws them."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.sealed import is_broken
from pipeline.runtime.text import read_text, refuse_conflict

COLUMNS = ("epoch", "loss", "val_rsum")
ERROR = "_error"  # how columns of shares that are classified wrongly end
FIT = "fit"  # the phase of a model that is not trained by steps
START = "start"  # the phase of the row, epoch 0, of the weights before the first step
REMEDY = "write it again with: dvc repro train"


@dataclass(frozen=True)
class Curve:
    """Loss and validation rsum of one model, by E epochs.

    Parts of a model that are trained one after the other, as DP-RNN's two networks, have their
    epochs one after the other, too, each counted from 1; a last row is for all kept weights.
    """

    epochs: list[float]
    loss: list[float]  # NaN in epoch 0, the weights before the first step
    rsum: list[float]  # six recalls in percent, added
    # By what is classified, such as `image`: the share of the training batches that is classified
    # wrongly; NaN in epochs that classify nothing.
    errors: Mapping[str, list[float]] = field(default_factory=dict)
    phases: Sequence[str] = ()  # (E,) what each epoch belongs to, such as stage_2
    parts: Sequence[str] = ()  # (E,) the part that it trained; empty for a model without parts

    def part(self, row: int) -> str:
        """The part of a row, "" for a model without parts."""
        return self.parts[row] if self.parts else ""

    def line(self, values: Sequence[float]) -> tuple[list[float], list[float]]:
        """Epochs and values as one line, which NaN breaks between two parts."""
        epochs: list[float] = []
        heights: list[float] = []
        for row, (epoch, value) in enumerate(zip(self.epochs, values, strict=True)):
            if row and self.part(row) != self.part(row - 1):
                epochs.append(math.nan)
                heights.append(math.nan)
            epochs.append(epoch)
            heights.append(value)
        return epochs, heights

    @property
    def trained(self) -> "Curve":
        """The rows that have a loss: all but epoch 0, where there is one."""
        first = int(bool(self.phases) and self.phases[0] == START)
        return Curve(
            epochs=self.epochs[first:],
            loss=self.loss[first:],
            rsum=self.rsum[first:],
            errors={name: values[first:] for name, values in self.errors.items()},
            phases=self.phases[first:],
            parts=self.parts[first:],
        )

    @property
    def turns(self) -> dict[float, str]:
        """By the first epoch of each phase but the first of its part: its name."""
        return {
            self.epochs[row]: self.phases[row]
            for row in range(1, len(self.phases))
            if self.part(row) == self.part(row - 1)
            and self.phases[row - 1] not in ("", START, self.phases[row])
        }

    @property
    def best(self) -> tuple[float, float]:
        """Epoch and validation rsum of the weights that were kept: the first largest rsum, or the
        last row of a model with parts."""
        if self.parts:
            return self.epochs[-1], self.rsum[-1]
        rsum = max(self.rsum)
        return self.epochs[self.rsum.index(rsum)], rsum


def read_curve(path: Path) -> Curve | None:
    """Read a tab-separated curve with at least the columns epoch, loss and val_rsum. None for a
    model that was fitted at once, as cca is: its rows are tries, and have no loss."""
    text = read_text(path)
    refuse_conflict(text, path)
    if is_broken(text):
        raise WorkbenchError(f"{path}: cut short or changed: does not match its sha256", REMEDY)
    try:
        lines = io.StringIO(text)
        table = pd.read_csv(lines, sep="\t", dtype=str, keep_default_na=False, index_col=False)
        phases = table.get("phase", pd.Series("", table.index))
        if table.empty:
            raise ValueError("no epoch in it")
        if (phases == FIT).all():
            return None
        is_start = phases == START
        numbers = table[list(COLUMNS)].replace({"loss": {"": "nan"}}).astype(float)
        shares = table.filter(regex=f"{ERROR}$").replace("", "nan").astype(float)
        known = numbers.assign(loss=numbers["loss"].mask(is_start, 0.0))
        if not np.isfinite(known).all(axis=None):
            raise ValueError(f"{', '.join(COLUMNS)} must be finite numbers")
    except (KeyError, ValueError) as error:  # or what pandas cannot parse
        raise WorkbenchError(f"{path}: not a curve: {error}", REMEDY) from None
    errors = {str(name).removesuffix(ERROR): values.tolist() for name, values in shares.items()}
    epochs, loss, rsum = (numbers[name].tolist() for name in COLUMNS)
    parts = table["part"].tolist() if "part" in table else []
    return Curve(epochs, loss, rsum, errors, phases.tolist(), parts)
