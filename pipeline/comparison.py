"""One table of all models: what each reaches, what chance would, and how sure the figures are."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import WorkbenchError
from pipeline.rank_file import RankRecord, read_ranks

TITLES = {"r1": "R@1", "r5": "R@5", "r10": "R@10", "medr": "Med r", "meanr": "Mean r"}
MEASURES = tuple(TITLES)  # as in pipeline.metrics, which would load torch for a table
MAX_METRICS_BYTES = 1 << 20
LARGEST_RANK = 10**12
REMEDY = "write it again with: dvc repro evaluate"


@dataclass(frozen=True)
class Result:
    """One model: its name, its figures under the naive criterion, and its rank file."""

    name: str
    figures: dict[str, Any]
    record: RankRecord


def read_results(metrics: Sequence[Path], ranks: Sequence[Path]) -> list[Result]:
    """Read metrics files and the rank file of the same stem for each.

    Raises WorkbenchError for malformed files, for a file without its partner, and when models were
    evaluated on different queries or under different protocols.
    """
    partners = {path.stem: path for path in ranks}
    results: list[Result] = []
    for path in metrics:
        if path.stem not in partners:
            raise WorkbenchError(f"{path}: no rank file named {path.stem}.h5 among --ranks")
        content, record = read_metrics(path), read_ranks(partners.pop(path.stem))
        if content["protocol"] != record.protocol:
            raise WorkbenchError(
                f"{path}: protocol {content['protocol']}, but its rank file says {record.protocol}",
                REMEDY,
            )
        results.append(Result(path.stem, content["naive"], record))
    if partners:
        raise WorkbenchError(f"rank files without a metrics file: {', '.join(sorted(partners))}")
    _check_comparable(results)
    return results


def read_metrics(path: Path) -> dict[str, Any]:
    """The content of a metrics file; WorkbenchError naming the first key that is not right."""
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file", REMEDY)
    if path.stat().st_size > MAX_METRICS_BYTES:
        raise WorkbenchError(f"{path}: too large for a metrics file", REMEDY)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise WorkbenchError(f"{path}: not a JSON file", REMEDY) from None
    naive = _member(path, content, "naive")
    for way in ("i2t", "t2i"):
        for measure in MEASURES:
            top = LARGEST_RANK if measure in ("medr", "meanr") else 100
            _check_number(path, naive, f"naive.{way}.{measure}", top)
    _check_number(path, naive, "naive.rsum", 600)
    if not isinstance(content.get("protocol"), str):
        raise WorkbenchError(f"{path}: no protocol", REMEDY)
    return dict(content)


def report(results: Sequence[Result], dataset: str, loss: str) -> str:
    """The comparison as markdown that is aligned for reading on a terminal, too."""
    record = results[0].record
    share = f"{100 * record.confidence:g} %"
    lines = [
        "# Comparison of models",
        "",
        f"Dataset {dataset}, ranking loss {loss}. Test split: {len(record.image_ids):,} images, "
        f"{len(record.caption_ids):,} captions, protocol {record.protocol}.",
        f"Recalls in percent; i2t: image queries, t2i: caption queries; {share}: bootstrap "
        "interval of rsum.",
        "",
        *table(results, share),
    ]
    return "\n".join(lines) + "\n"


def table(results: Sequence[Result], share: str) -> list[str]:
    """Lines of a markdown table: a row per model, the best figures bold, and the chance level."""
    titles = [
        f"{way} {TITLES[m]}" if m == "r1" else TITLES[m] for way in ("i2t", "t2i") for m in MEASURES
    ]
    rows = [_cells(result.figures) for result in results]
    if len(results) > 1:
        _embolden(rows)
    chance = results[0].record.chance
    body = [
        [result.name, *row, _interval(result.record)]
        for result, row in zip(results, rows, strict=True)
    ]
    body.append(["chance", *_cells(chance), ""])
    return aligned([["model", *titles, "rsum", share], *body])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A markdown table with columns padded to one width; the first row is the head."""
    widths = [max(3, *(len(row[i]) for row in rows)) for i in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(_padded(cell, i, widths[i]) for i, cell in enumerate(row)) + " |"
        for row in rows
    ]
    rule = "|".join(
        "-" * (width + 2) if i == 0 else "-" * (width + 1) + ":" for i, width in enumerate(widths)
    )
    return [lines[0], f"|{rule}|", *lines[1:]]


def _padded(cell: str, column: int, width: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)


def _cells(figures: Mapping[str, Any]) -> list[str]:
    values = [figures[way][measure] for way in ("i2t", "t2i") for measure in MEASURES]
    return [f"{value:.1f}" for value in [*values, figures["rsum"]]]


def _embolden(rows: list[list[str]]) -> None:
    for column in range(len(rows[0])):
        values = [float(row[column]) for row in rows]
        is_rank = column < 2 * len(MEASURES) and MEASURES[column % len(MEASURES)] in (
            "medr",
            "meanr",
        )
        best = min(values) if is_rank else max(values)
        for row, value in zip(rows, values, strict=True):
            if value == best:
                row[column] = f"**{row[column]}**"


def _interval(record: RankRecord) -> str:
    if "naive" not in record.intervals:
        return "-"
    low, high = record.intervals["naive"]["rsum"]
    return f"{low:.1f} to {high:.1f}"


def _check_comparable(results: Sequence[Result]) -> None:
    first = results[0]
    for other in results[1:]:
        if other.record.protocol != first.record.protocol:
            raise WorkbenchError(
                f"{first.name} and {other.name} differ in protocol: {first.record.protocol} and "
                f"{other.record.protocol}",
                "evaluate both with the same evaluation.folds",
            )
        if (other.record.image_ids, other.record.caption_ids) != (
            first.record.image_ids,
            first.record.caption_ids,
        ):
            raise WorkbenchError(
                f"{first.name} and {other.name} were evaluated on different images or captions",
                "score both on the same corpus: dvc repro",
            )


def _member(path: Path, content: Any, key: str) -> Any:
    """content[a][b] for the key "a.b"; WorkbenchError naming file and key when it is missing."""
    node = content
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            raise WorkbenchError(f"{path}: not a metrics file: {key} is missing", REMEDY)
        node = node[part]
    return node


def _check_number(path: Path, naive: Any, key: str, top: int) -> None:
    value = _member(path, {"naive": naive}, key)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= top:  # NaN compares false
        raise WorkbenchError(f"{path}: {key} = {value!r}; allowed is a number from 0 to {top:,}")
