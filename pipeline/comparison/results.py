"""What evaluation wrote of each model: its metrics and rank files, read and held together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.evaluation.columns import columns_in
from pipeline.evaluation.file import RankRecord, check_metrics, check_model, read_ranks
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import read_json

NAIVE = "naive"
# of a metrics file no criteria; the first five are fields of Result
SAID = ("shortlist", "test_images", "extended", "external", "rerank", "protocol", "features")
REMEDY = "write it again with: dvc repro evaluate"


@dataclass(frozen=True)
class Result:
    name: str
    criteria: dict[str, dict[str, Any]]  # criterion -> figures, naive first
    record: RankRecord
    ranks: Path
    shortlist: int | None = None  # images per caption that had a full score, None where all had
    # of which the evaluated images are the first, None where they are all
    test_images: int | None = None
    # what the metrics file has of extended positives, None without
    extended: dict[str, Any] | None = None
    external: bool = False  # whether another program made the scores
    # of two models one after the other: first, second, top, and by direction the percentage of all
    # pairs that the second scores; None for others
    rerank: dict[str, Any] | None = None

    @property
    def images(self) -> int:
        """Images of the test split, evaluated or not."""
        return self.test_images or len(self.record.image_ids)


def read_results(metrics: Sequence[Path], ranks: Sequence[Path]) -> list[Result]:
    """Metrics files and the rank file of the same stem each, all of the same queries."""
    partners = {path.stem: path for path in ranks}
    results: list[Result] = []
    for path in metrics:
        if path.stem not in partners:
            raise WorkbenchError(f"{path}: no rank file named {path.stem}.h5 among --ranks")
        partner = partners.pop(path.stem)
        content, record = read_metrics(path), read_ranks(partner)
        check_model(partner, record)
        check_metrics(path, content, partner, record.metrics_sha256)
        said = {name: content[name] for name in SAID[:5] if name in content}
        results.append(Result(path.stem, _criteria(content), record, partner, **said))
    if partners:
        raise WorkbenchError(f"rank files without a metrics file: {', '.join(sorted(partners))}")
    _check_comparable(results)
    return results


def read_metrics(path: Path) -> dict[str, Any]:
    """The content of a metrics file; WorkbenchError naming the first figure that is missing."""
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file", REMEDY)
    content, where = read_json(path), NAIVE
    try:
        columns = columns_in(content[NAIVE])
        for name, part in _criteria(content).items():
            for column in columns:
                where = ".".join([name, *column.keys])
                column.of(part)
    except (LookupError, TypeError, AttributeError):
        raise WorkbenchError(f"{path}: not a metrics file: {where} is missing", REMEDY) from None
    return dict(content)


def _criteria(content: Mapping[str, Any]) -> dict[str, Any]:
    others = {name: part for name, part in content.items() if name not in (NAIVE, *SAID)}
    return {NAIVE: content[NAIVE], **others}


def _check_comparable(results: Sequence[Result]) -> None:
    first = results[0]
    settings: list[tuple[str, Callable[[Result], Any], str]] = [
        ("protocol", lambda run: run.record.protocol, "evaluation.folds and evaluation.subset"),
        ("their metrics", lambda run: columns_in(run.criteria[NAIVE]), "evaluation.recall_k"),
        ("extended positives", _list_of, "corpus.positives"),
    ]
    for other in results[1:]:
        names = f"{first.name} and {other.name}"
        for what, of, key in settings:
            if (left := of(first)) != (right := of(other)):
                values = f": {left} and {right}" if isinstance(left, str) else ""
                raise WorkbenchError(
                    f"{names} differ in {what}{values}",
                    f"evaluate both with the same {key}: dvc repro",
                )
        ids = [(result.record.image_ids, result.record.caption_ids) for result in (first, other)]
        if ids[0] != ids[1]:
            raise WorkbenchError(
                f"{names} were evaluated on different images or captions",
                "score both on the same corpus: dvc repro",
            )


def _list_of(result: Result) -> tuple[Any, ...]:
    """What tells one list of extended positives on one test split from another."""
    return tuple((result.extended or {}).get(key) for key in ("positives", "pairs", "queries"))
