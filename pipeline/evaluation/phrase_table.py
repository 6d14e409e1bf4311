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
LOCALISE_AGAIN = "write it again with: dvc repro evaluate_phrases"


@dataclass(frozen=True)
class PhraseRow:
    """What a model of phrases reaches.

    Attributes:
        name: of the model.
        figures: r1, r5, r10 and map in percent.
        bound: percent of phrases that any proposal is right for.
        interval: low and high end of that of r1, None without resamples.
        types: of each type of phrase r1, upper_bound and the number of phrases, among others.
        phrases: how many there are.
        unique: how many different ones.
    """

    name: str
    figures: Mapping[str, float]
    bound: float
    interval: tuple[float, float] | None
    types: Mapping[str, Mapping[str, float]]
    phrases: int
    unique: int


def read_rows(paths: Sequence[Path], found: Sequence[Path] = ()) -> list[PhraseRow]:
    """The rows of metrics files of models of phrases; those without any phrase are left out.

    Args:
        paths: the metrics files.
        found: files of the same evaluation with what was found, known by their stems.

    Returns:
        A row for each model that has phrases.

    Raises:
        WorkbenchError: a metrics file of another kind, or one that was not written with the other.
    """
    partners = {path.stem: path for path in found}
    rows = []
    for path in paths:
        content = read_json(path)
        if content == {"phrases": 0}:
            continue
        rows.append(_row(path, content))
        partner = partners.get(path.stem)
        if partner is not None:
            attributes = FeatureFile(partner).attributes
            if attributes.get("model", path.stem) != path.stem:
                message = f"{partner}: of {attributes['model']}, another model"
                raise WorkbenchError(message, LOCALISE_AGAIN)
            check_metrics(path, content, partner, attributes.get("metrics_sha256"))
    return rows


def phrase_report(rows: Sequence[PhraseRow]) -> str:
    """The section of the comparison in markdown; empty without models of phrases."""
    if not rows:
        return ""
    lines = ["", "## Phrases", "", explained(rows), "", *aligned([HEAD, *map(cells, rows)])]
    lines += ["", "R@1 by type of phrase, upper bounds in the last line.", ""]
    return "\n".join([*lines, *aligned(by_type(rows))]) + "\n"


def cells(row: PhraseRow) -> list[str]:
    """The cells of a row below HEAD."""
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
    """What was looked for, and what the titles mean."""
    return (
        f"{rows[0].phrases:,} phrases of the test split, {rows[0].unique:,} different ones, each "
        "looked for among the proposals of its image. R@K: one of the K best overlaps with the "
        "true box by 0.5 or more; upper bound: any proposal does; mAP: over different phrases."
    )


def _row(path: Path, metrics: Any) -> PhraseRow:
    try:
        limits = metrics.get("intervals", {}).get("r1")
        return PhraseRow(
            name=path.stem,
            figures=metrics["naive"]["phrases"],
            bound=metrics["upper_bound"],
            interval=(limits["low"], limits["high"]) if limits else None,
            types=metrics["types"],
            phrases=metrics["phrases"],
            unique=metrics["unique_phrases"],
        )
    except (KeyError, TypeError, AttributeError):
        message = f"{path}: no metrics of a model of phrases"
        raise WorkbenchError(message, LOCALISE_AGAIN) from None
