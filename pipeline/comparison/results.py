"""What evaluation wrote of each model: its metrics and rank files, read and held together."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.evaluation.file import (
    RankRecord,
    check_model,
    metrics_digest,
    read_query_ranks,
    read_ranks,
)
from pipeline.evaluation.metrics import COLUMNS, EXTENDED, Column, columns_of
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.ranking import DIRECTIONS

MAX_METRICS_BYTES = 1 << 20
LARGEST = 10**12
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
CRITERION = re.compile(r"[a-z][a-z0-9_]*")
REMEDY = "write it again with: dvc repro evaluate"


@dataclass(frozen=True)
class Result:
    """One model.

    Attributes:
        name: of the model.
        criteria: criterion -> figures, naive first.
        record: of its rank file.
        shortlist: images per caption that had a full score, None where all had.
        test_images: of which the evaluated images are the first, None where they are all.
        extended: what the metrics file has of extended positives, None without.
        is_external: whether another program made the scores.
    """

    name: str
    criteria: dict[str, dict[str, Any]]
    record: RankRecord
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

    Raises WorkbenchError for malformed files, for a file without its partner, and when models were
    evaluated on different queries or under different protocols.
    """
    partners = {path.stem: path for path in ranks}
    results: list[Result] = []
    for path in metrics:
        if path.stem not in partners:
            raise WorkbenchError(f"{path}: no rank file named {path.stem}.h5 among --ranks")
        partner = partners.pop(path.stem)
        content, record = read_metrics(path), read_ranks(partner)
        _check_figures(partner, {"chance": record.chance}, "chance", "rank")
        if content["protocol"] != record.protocol:
            raise WorkbenchError(
                f"{path}: protocol {content['protocol']}, but its rank file says {record.protocol}",
                REMEDY,
            )
        said = content.get(SHORTLIST), content.get(TEST_IMAGES), content.get(BESIDE)
        external = content.get(EXTERNAL, False)
        results.append(Result(path.stem, _criteria(content), record, *said, external))
        _check_partner(path, partner, content, results[-1])
        _check_intervals(path, results[-1])
        _check_record(partner, results[-1])
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
    _member(path, content, NAIVE)
    for criterion in _criteria(content):
        if not CRITERION.fullmatch(criterion):
            raise WorkbenchError(f"{path}: {criterion!r} is no name of a criterion", REMEDY)
        _check_figures(path, content, criterion)
    if not isinstance(content.get("protocol"), str):
        raise WorkbenchError(f"{path}: no protocol", REMEDY)
    for key in (SHORTLIST, TEST_IMAGES):
        _check_count(path, key, content.get(key, 1))
    if BESIDE in content:
        _check_extended(path, content)
    if type(content.get(EXTERNAL, True)) is not bool:
        raise WorkbenchError(f"{path}: {EXTERNAL} = {content[EXTERNAL]!r}; allowed is true", REMEDY)
    return dict(content)


def _criteria(content: Mapping[str, Any]) -> dict[str, Any]:
    others = {name: part for name, part in content.items() if name not in (NAIVE, *SAID)}
    return {NAIVE: content[NAIVE], **others}


def _check_partner(path: Path, ranks: Path, content: Mapping[str, Any], result: Result) -> None:
    """Raise WorkbenchError unless both files were written by one evaluation under their name."""
    from pipeline.comparison.figures import check_figures  # loads torch, which a table does without

    check_model(ranks, result.record)
    for criterion in set(result.criteria) & set(result.record.criteria):
        check_figures(path, result.criteria[criterion], read_query_ranks(ranks, criterion))
    told = result.record.made_with.get("metrics_sha256", digest := metrics_digest(content))
    if told != digest:
        raise WorkbenchError(f"{path}: was not written with {ranks}, or was changed since", REMEDY)


def _check_intervals(path: Path, result: Result) -> None:
    """Raise WorkbenchError when the rank file has intervals, but not of every criterion."""
    missing = set(result.criteria) - set(result.record.intervals)
    if result.record.intervals and missing:
        raise WorkbenchError(
            f"{path}: its rank file has no interval of {', '.join(sorted(missing))}", REMEDY
        )


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


def _check_figures(
    path: Path,
    content: Any,
    key: str,
    kind: str = "metrics",
    columns: Sequence[Column] = COLUMNS,
) -> None:
    """Raise WorkbenchError unless the content of a file has every figure at `key`, in its span."""
    for column in columns:
        _check_number(path, content, ".".join((key, *column.keys)), column.span, kind)


def _check_count(path: Path, key: str, number: Any) -> None:
    if type(number) is not int or not 1 <= number <= LARGEST:
        raise WorkbenchError(
            f"{path}: {key} = {number!r}; allowed are whole numbers from 1", REMEDY
        )


def _check_extended(path: Path, content: Mapping[str, Any]) -> None:
    """Raise WorkbenchError unless extended positives are named, counted, and of every criterion."""
    if not isinstance(_member(path, content, f"{BESIDE}.positives"), str):
        raise WorkbenchError(f"{path}: {BESIDE}.positives is no name", REMEDY)
    for key in ("pairs", *(f"queries.{way}" for way in DIRECTIONS)):
        _check_count(path, f"{BESIDE}.{key}", _member(path, content, f"{BESIDE}.{key}"))
    for criterion in _criteria(content):
        _check_figures(path, content, f"{BESIDE}.{criterion}", columns=columns_of(EXTENDED))


def _check_record(path: Path, result: Result) -> None:
    """Raise WorkbenchError unless a rank file has the extended positives of its metrics file."""
    told, found = result.extended or {}, result.record.extended
    if told.get("positives") != found.get("positives"):
        raise WorkbenchError(
            f"{path}: extended positives {found.get('positives', 'none')}, its metrics file has "
            f"{told.get('positives', 'none')}",
            REMEDY,
        )
    if told:
        _check_figures(path, found, "chance", "rank", columns_of(EXTENDED))
        intervals = _member(path, found, "intervals", "rank")
        missing = set(result.criteria) - set(intervals)
        if intervals and missing:
            raise WorkbenchError(
                f"{path}: no extended interval of {', '.join(sorted(missing))}", REMEDY
            )


def _member(path: Path, content: Any, key: str, kind: str = "metrics") -> Any:
    """content[a][b] for the key "a.b"; WorkbenchError naming file and key when it is missing."""
    node = content
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            raise WorkbenchError(f"{path}: not a {kind} file: {key} is missing", REMEDY)
        node = node[part]
    return node


def _check_number(path: Path, content: Any, key: str, span: tuple[float, float], kind: str) -> None:
    (low, high), value = span, _member(path, content, key, kind)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:  # NaN compares false
        raise WorkbenchError(
            f"{path}: {key} = {value!r}; allowed is a number from {low:,} to {high:,}"
        )
