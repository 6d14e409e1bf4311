"""What models of phrases reach, side by side, with the upper bound that the proposals set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.comparison.table import aligned, interval_text, shown
from pipeline.evaluation.file import check_metrics
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import read_json
from pipeline.storage.features import FeatureFile

TITLES = {"r1": "R@1", "r5": "R@5", "r10": "R@10", "map": "mAP"}
REMEDY = "write it again with: dvc repro evaluate_phrases"


@dataclass(frozen=True)
class PhraseRow:
    """One model.

    Attributes:
        name: of the model.
        figures: r1, r5, r10 and map in percent.
        bound: percent of phrases that any proposal is right for.
        interval: [low, high] of r1, None without resamples.
        types: of each type r1, upper_bound and the number of phrases, among others.
        phrases: of the test split.
        unique: different ones.
    """

    name: str
    figures: Mapping[str, float]
    bound: float
    interval: tuple[float, float] | None
    types: Mapping[str, Mapping[str, float]]
    phrases: int
    unique: int


def read_rows(paths: Sequence[Path], found: Sequence[Path] = ()) -> list[PhraseRow]:
    """The rows of metrics files, in their order; none of a corpus without phrases.

    Args:
        paths: of the metrics.
        found: what each model found, by its stem.

    Raises:
        WorkbenchError: a file that is not of a model of phrases, metrics of another evaluation than
            what was found.
    """
    read = {path: read_json(path) for path in paths}
    rows = {path: _row(path, own) for path, own in read.items() if own != {"phrases": 0}}
    beside = {path.stem: path for path in found}
    for path, row in rows.items():
        if row.name in beside:
            _check_partner(path, row.name, read[path], beside[row.name])
    return list(rows.values())


def _check_partner(path: Path, name: str, content: Any, found: Path) -> None:
    """Raise WorkbenchError unless one evaluation wrote the metrics and what was found."""
    told = FeatureFile(found).attributes
    if told.get("model", name) != name:
        raise WorkbenchError(f"{found}: of {told['model']}, another model", REMEDY)
    check_metrics(path, content, found, told.get("metrics_sha256"))


def phrase_report(rows: Sequence[PhraseRow]) -> str:
    """The section of the comparison in markdown; empty without models of phrases."""
    if not rows:
        return ""
    lines = ["", "## Phrases", "", said(rows), "", *aligned([head(), *map(cells, rows)])]
    lines += ["", "R@1 by type of phrase, upper bounds in the last line.", ""]
    return "\n".join([*lines, *aligned(by_type(rows))]) + "\n"


def head() -> list[str]:
    """Titles of the columns."""
    return ["model", *TITLES.values(), "upper bound", "interval of R@1"]


def cells(row: PhraseRow) -> list[str]:
    """A row as printed."""
    figures = [shown(row.figures[key]) for key in TITLES]
    return [row.name, *figures, shown(row.bound), interval_text(row.interval)]


def by_type(rows: Sequence[PhraseRow]) -> list[list[str]]:
    """R@1 of each type: a head, a row per model, the upper bounds."""
    types = rows[0].types
    body = [[row.name, *(shown(row.types[name]["r1"]) for name in types)] for row in rows]
    titles = [f"{name} ({own['phrases']:,.0f})" for name, own in types.items()]
    bounds = [shown(own["upper_bound"]) for own in types.values()]
    return [["model", *titles], *body, ["upper bound", *bounds]]


def said(rows: Sequence[PhraseRow]) -> str:
    """What the figures mean."""
    return (
        f"{rows[0].phrases:,} phrases of the test split, {rows[0].unique:,} different ones, each "
        "looked for among the proposals of its image. R@K: one of the K best overlaps with the "
        "true box by 0.5 or more; upper bound: any proposal does; mAP: over different phrases."
    )


def _row(path: Path, found: Any) -> PhraseRow:
    try:
        figures = {key: float(found["naive"]["phrases"][key]) for key in TITLES}
        limits = found.get("intervals", {}).get("r1")
        interval = (float(limits["low"]), float(limits["high"])) if limits else None
        types = {
            str(name): {key: float(own[key]) for key in ("r1", "upper_bound", "phrases")}
            for name, own in found["types"].items()
        }
        counts = int(found["phrases"]), int(found["unique_phrases"])
        bound = float(found["upper_bound"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise WorkbenchError(
            f"{path}: no metrics of a model of phrases",
            REMEDY,
        ) from None
    return PhraseRow(path.stem, figures, bound, interval, types, *counts)
