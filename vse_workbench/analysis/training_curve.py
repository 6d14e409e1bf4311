"""Training curves with their phases: which stretch of epochs was trained on which loss."""

import csv
import io
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pipeline.report.curve_files import Curve, read_curve
from pipeline.runtime.errors import WorkbenchError


@dataclass(frozen=True)
class Stretch:
    """Consecutive epochs of one phase, first to last included."""

    name: str
    first: float
    last: float


def read_phases(path: Path) -> tuple[Curve, list[Stretch]]:
    """A curve file and the stretches of its column `phase`; one without a name if there is none."""
    curve = read_curve(path)
    if curve is None:
        raise WorkbenchError(f"{path}: of a model that is fitted at once; it has no curve")
    rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")), delimiter="\t")
    names, stretches = [row.get("phase") or "" for row in rows], []
    for name, group in groupby(zip(names, curve.epochs, strict=True), key=lambda pair: pair[0]):
        epochs = [epoch for _, epoch in group]
        stretches.append(Stretch(name, epochs[0], epochs[-1]))
    return curve, stretches
