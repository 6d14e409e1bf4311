"""What models of phrases reach, side by side, with the upper bound that the proposals set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.evaluation.comparison import aligned, interval_text, shown
from pipeline.evaluation.rank_file import check_metrics
from pipeline.features.feature_file import FeatureFile
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import read_json

TITLES = {"r1": "R@1", "r5": "R@5", "r10": "R@10", "map": "mAP"}
HEAD = ["model", *TITLES.values(), "upper bound", "interval of R@1"]
REMEDY = "write it again with: dvc repro evaluate_phrases"


@dataclass(frozen=True)
class PhraseRow:
    name: str
    figures: Mapping[str, float]  # r1, r5, r10 and map in percent
    bound: float  # percent of phrases that any proposal is right for
    interval: tuple[float, float] | None  # [low, high] of r1, None without resamples
    # of each type r1, upper_bound and the number of phrases, among others
    types: Mapping[str, Mapping[str, float]]
    phrases: int
    unique: int  # different ones


def read_rows(paths: Sequence[Path], found: Sequence[Path] = ()) -> list[PhraseRow]:
    """The rows of metrics files with phrases; found: of the same evaluation, by the file's stem."""
    read = {path: read_json(path) for path in paths}
    rows = {path: _row(path, data) for path, data in read.items() if data != {"phrases": 0}}
    partners = {path.stem: path for path in found}
    for path in rows:
        if partner := partners.get(path.stem):
            said = FeatureFile(partner).attributes
            if said.get("model", path.stem) != path.stem:
                raise WorkbenchError(f"{partner}: of {said['model']}, another model", REMEDY)
            check_metrics(path, read[path], partner, said.get("metrics_sha256"))
    return list(rows.values())


def phrase_report(rows: Sequence[PhraseRow]) -> str:
    """The section of the comparison in markdown; empty without models of phrases."""
    if not rows:
        return ""
    lines = ["", "## Phrases", "", explained(rows), "", *aligned([HEAD, *map(cells, rows)])]
    lines += ["", "R@1 by type of phrase, upper bounds in the last line.", ""]
    return "\n".join([*lines, *aligned(by_type(rows))]) + "\n"


def cells(row: PhraseRow) -> list[str]:
    figures = [shown(row.figures[key]) for key in TITLES]
    return [row.name, *figures, shown(row.bound), interval_text(row.interval)]


def by_type(rows: Sequence[PhraseRow]) -> list[list[str]]:
    """R@1 of each type: a head, a row per model, the upper bounds."""
    types = rows[0].types
    body = [[row.name, *(shown(row.types[name]["r1"]) for name in types)] for row in rows]
    titles = [f"{name} ({figures['phrases']:,.0f})" for name, figures in types.items()]
    bounds = [shown(figures["upper_bound"]) for figures in types.values()]
    return [["model", *titles], *body, ["upper bound", *bounds]]


def explained(rows: Sequence[PhraseRow]) -> str:
    return (
        f"{rows[0].phrases:,} phrases of the test split, {rows[0].unique:,} different ones, each "
        "looked for among the proposals of its image. R@K: one of the K best overlaps with the "
        "true box by 0.5 or more; upper bound: any proposal does; mAP: over different phrases."
    )


def _row(path: Path, metrics: Any) -> PhraseRow:
    try:
        figures, limits = metrics["naive"]["phrases"], metrics.get("intervals", {}).get("r1")
        interval = (limits["low"], limits["high"]) if limits else None
        rest = (metrics[key] for key in ("types", "phrases", "unique_phrases"))
        return PhraseRow(path.stem, figures, metrics["upper_bound"], interval, *rest)
    except (KeyError, TypeError, AttributeError):
        raise WorkbenchError(f"{path}: no metrics of a model of phrases", REMEDY) from None
