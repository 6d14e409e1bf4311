"""What evaluation wrote of each model: its metrics and rank files, read and held together."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.evaluation.columns import COLUMNS, EXTENDED
from pipeline.evaluation.figures import columns_of
from pipeline.evaluation.file import RankRecord, check_metrics, check_model, read_ranks
from pipeline.runtime.errors import WorkbenchError

NAIVE = "naive"
SHORTLIST = "shortlist"
TEST_IMAGES = "test_images"
BESIDE = "extended"
EXTERNAL = "external"
SAID = (  # keys of a metrics file that are not criteria
    "protocol",
    SHORTLIST,
    TEST_IMAGES,
    BESIDE,
    EXTERNAL,
)
REMEDY = "write it again with: dvc repro evaluate"


@dataclass(frozen=True)
class Result:
    """One model.

    Attributes:
        name: of the model.
        criteria: criterion -> figures, naive first.
        record: of its rank file.
        ranks: the rank file.
        shortlist: images per caption that had a full score, None where all had.
        test_images: of which the evaluated images are the first, None where they are all.
        extended: what the metrics file has of extended positives, None without.
        is_external: whether another program made the scores.
    """

    name: str
    criteria: dict[str, dict[str, Any]]
    record: RankRecord
    ranks: Path
    shortlist: int | None = None
    test_images: int | None = None
    extended: dict[str, Any] | None = None
    is_external: bool = False

    @property
    def images(self) -> int:
        """Images of the test split, evaluated or not."""
        return self.test_images or len(self.record.image_ids)


def read_results(metrics: Sequence[Path], ranks: Sequence[Path]) -> list[Result]:
    """Read metrics files and the rank file of the same stem for each.

    Raises WorkbenchError for a file without its partner or of another evaluation than it, and when
    models were evaluated on different queries or under different protocols.
    """
    partners = {path.stem: path for path in ranks}
    results: list[Result] = []
    for path in metrics:
        if path.stem not in partners:
            raise WorkbenchError(f"{path}: no rank file named {path.stem}.h5 among --ranks")
        results.append(_result(path, partners.pop(path.stem)))
    if partners:
        raise WorkbenchError(f"rank files without a metrics file: {', '.join(sorted(partners))}")
    _check_comparable(results)
    return results


def read_metrics(path: Path) -> dict[str, Any]:
    """The content of a metrics file; WorkbenchError naming the first figure that is missing."""
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file", REMEDY)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise WorkbenchError(f"{path}: not a JSON file", REMEDY) from None
    _check_member(path, content, (NAIVE,))
    for name in _criteria(content):
        for column in COLUMNS:
            _check_member(path, content, (name, *column.keys))
        for column in columns_of(EXTENDED) if BESIDE in content else ():
            _check_member(path, content, (BESIDE, name, *column.keys))
    return dict(content)


def _result(path: Path, ranks: Path) -> Result:
    content, record = read_metrics(path), read_ranks(ranks)
    check_model(ranks, record)
    check_metrics(path, content, ranks, record.metrics_sha256)
    return Result(
        name=path.stem,
        criteria=_criteria(content),
        record=record,
        ranks=ranks,
        shortlist=content.get(SHORTLIST),
        test_images=content.get(TEST_IMAGES),
        extended=content.get(BESIDE),
        is_external=content.get(EXTERNAL, False),
    )


def _criteria(content: Mapping[str, Any]) -> dict[str, Any]:
    others = {name: part for name, part in content.items() if name not in (NAIVE, *SAID)}
    return {NAIVE: content[NAIVE], **others}


def _check_comparable(results: Sequence[Result]) -> None:
    first = results[0]
    for other in results[1:]:
        if other.record.protocol != first.record.protocol:
            raise WorkbenchError(
                f"{first.name} and {other.name} differ in protocol: {first.record.protocol} and "
                f"{other.record.protocol}",
                "evaluate both with the same evaluation.folds and evaluation.subset",
            )
        if _list_of(other) != _list_of(first):
            raise WorkbenchError(
                f"{first.name} and {other.name} differ in extended positives",
                "evaluate both with the same corpus.positives: dvc repro",
            )
        if (other.record.image_ids, other.record.caption_ids) != (
            first.record.image_ids,
            first.record.caption_ids,
        ):
            raise WorkbenchError(
                f"{first.name} and {other.name} were evaluated on different images or captions",
                "score both on the same corpus: dvc repro",
            )


def _list_of(result: Result) -> tuple[Any, ...]:
    """What tells one list of extended positives on one test split from another."""
    return tuple((result.extended or {}).get(key) for key in ("positives", "pairs", "queries"))


def _check_member(path: Path, content: Any, keys: Sequence[str]) -> None:
    """Raise WorkbenchError unless there is content[a][b] for the keys a and b."""
    for key in keys:
        if not isinstance(content, dict) or key not in content:
            raise WorkbenchError(f"{path}: not a metrics file: {'.'.join(keys)} is missing", REMEDY)
        content = content[key]
