"""Curve files, one row per epoch, as the report draws them."""

import io
import itertools
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
        numbers = table[list(COLUMNS)].astype(float)
        shares = table.filter(regex=f"{ERROR}$").replace("", "nan").astype(float)
        if not np.isfinite(numbers).all(axis=None):
            raise ValueError(f"{', '.join(COLUMNS)} must be finite numbers")
    except (KeyError, ValueError) as error:  # or what pandas cannot parse
        raise WorkbenchError(f"{path}: not a curve: {error}", REMEDY) from None
    errors = {str(name).removesuffix(ERROR): values.tolist() for name, values in shares.items()}
    epochs, loss, rsum = (numbers[name].tolist() for name in COLUMNS)
    return Curve(epochs, loss, rsum, errors, phases.tolist())
