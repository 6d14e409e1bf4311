"""One table of all models: what each reaches, what chance would, and how sure the figures are."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.evaluation.file import RankRecord, read_ranks
from pipeline.evaluation.metrics import COLUMNS, EXTENDED, Column, columns_of, headings, values_of
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


@dataclass(frozen=True)
class Row:
    """One model under one criterion.

    Attributes:
        model: its name.
        criterion: its name.
        figures: as a metrics file has them.
        interval: [low, high] of rsum, None without resamples.
    """

    model: str
    criterion: str
    figures: Mapping[str, Any]
    interval: tuple[float, float] | None

    @property
    def label(self) -> str:
        """ "vse", or "vse + csls" for another criterion than naive."""
        return self.model if self.criterion == NAIVE else f"{self.model} + {self.criterion}"

    @property
    def is_transductive(self) -> bool:
        """Whether scores of other test queries changed the ranking of a query."""
        return self.criterion != NAIVE


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


def rows_of(results: Sequence[Result]) -> list[Row]:
    """A row per model and criterion, in the order of the models, naive first."""
    rows = []
    for result in results:
        for criterion, figures in result.criteria.items():
            limits = result.record.intervals.get(criterion)
            interval = None if limits is None else (limits["rsum"][0], limits["rsum"][1])
            rows.append(Row(result.name, criterion, figures, interval))
    return rows


def best_of(rows: Sequence[Row]) -> list[list[bool]]:
    """For each row and figure, whether none is better as printed; all False for a single row."""
    table = [[float(shown(value)) for value in values_of(row.figures)] for row in rows]
    if len(rows) < 2:
        return [[False] * len(values) for values in table]
    best = [
        max(values) if column.better == "larger" else min(values)
        for column, values in zip(COLUMNS, zip(*table, strict=True), strict=True)
    ]
    return [[value == top for value, top in zip(row, best, strict=True)] for row in table]


def notes(results: Sequence[Result]) -> list[str]:
    """What must be known to read the table, a line each: see the four functions below."""
    kinds = (external_notes, transductive_notes, shortlist_notes, chance_notes)
    return [note for kind in kinds for note in kind(results)]


def external_notes(results: Sequence[Result]) -> list[str]:
    """One line that names the results that were trained elsewhere, if at all."""
    names = [result.name for result in results if result.is_external]
    return [f"Scores of other programs, no ranking loss of ours: {', '.join(names)}."] * bool(names)


def transductive_notes(results: Sequence[Result]) -> list[str]:
    """One line that names the transductive criteria, none when there are none."""
    names = [row.criterion for row in rows_of(results) if row.is_transductive]
    if not names:
        return []
    named = ", ".join(dict.fromkeys(names))
    return [f"Transductive, scores change with the other test queries: {named}."]


def shortlist_notes(results: Sequence[Result]) -> list[str]:
    """A line per model whose full score was not computed for every pair."""
    return [
        f"{result.name}: {result.shortlist} of {result.images:,} images per caption "
        "were scored in full, all others were moved behind them."
        for result in results
        if result.shortlist is not None and result.shortlist < result.images
    ]


def chance_notes(results: Sequence[Result]) -> list[str]:
    """One line that names the rows that may be chance: their interval of rsum reaches it."""
    chance = results[0].record.chance["rsum"]
    names = [row.label for row in rows_of(results) if row.interval and row.interval[0] <= chance]
    return [f"Cannot be told from chance: {', '.join(names)}."] if names else []


def images_of(result: Result) -> str:
    """How many images were evaluated: "5,000", or "the first 1,000 of 5,000"."""
    evaluated = f"{len(result.record.image_ids):,}"
    return (
        evaluated if result.test_images is None else f"the first {evaluated} of {result.images:,}"
    )


def shown(value: float) -> str:
    """A figure as printed everywhere, one decimal."""
    return f"{value:.1f}"


def report(results: Sequence[Result], dataset: str, loss: str) -> str:
    """The comparison as markdown that is aligned for reading on a terminal, too.

    Args:
        results: of all models.
        dataset: its name.
        loss: name of the ranking loss.
    """
    lines = ["# Comparison of models", "", *described(results, f"{dataset}, ranking loss {loss}")]
    return "\n".join(lines) + "\n"


def described(results: Sequence[Result], dataset: str) -> list[str]:
    """The table and what must be known to read it, as lines of markdown.

    Args:
        results: of all models.
        dataset: its name, and what else is common to all.
    """
    record = results[0].record
    share = f"{100 * record.confidence:g} %"
    return [
        f"Dataset {dataset}. Test split: {images_of(results[0])} images, "
        f"{len(record.caption_ids):,} captions, protocol {record.protocol}.",
        f"Recalls in percent; i2t: image queries, t2i: caption queries; {share}: bootstrap "
        "interval of rsum.",
        *notes(results),
        "",
        *table(results, share),
    ]


def table(results: Sequence[Result], share: str) -> list[str]:
    """Lines of a markdown table: a row per model and criterion, the best bold, and chance."""
    rows = rows_of(results)
    body = [
        [row.label, *_cells(row, best), interval_text(row.interval)]
        for row, best in zip(rows, best_of(rows), strict=True)
    ]
    chance = [shown(value) for value in values_of(results[0].record.chance)]
    return aligned([["model", *headings(), share], *body, ["chance", *chance, ""]])


def brief(results: Sequence[Result]) -> list[str]:
    """Lines of a narrow table for a terminal: R@1 both ways and rsum with its interval."""
    rows = [
        [
            row.label,
            *(shown(row.figures[way]["r1"]) for way in DIRECTIONS),
            shown(row.figures["rsum"]),
            interval_text(row.interval),
        ]
        for row in rows_of(results)
    ]
    chance = results[0].record.chance
    last = [shown(chance[way]["r1"]) for way in DIRECTIONS]
    head = ["model", *(f"{way} R@1" for way in DIRECTIONS), "rsum", "interval"]
    return aligned([head, *rows, ["chance", *last, shown(chance["rsum"]), ""]])


def interval_text(interval: tuple[float, float] | None) -> str:
    """ "232.1 to 283.5", or a dash where no intervals were drawn."""
    return "-" if interval is None else f"{shown(interval[0])} to {shown(interval[1])}"


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


def _cells(row: Row, best: Sequence[bool]) -> list[str]:
    texts = [shown(value) for value in values_of(row.figures)]
    return [f"**{text}**" if top else text for text, top in zip(texts, best, strict=True)]


def _criteria(content: Mapping[str, Any]) -> dict[str, Any]:
    others = {name: part for name, part in content.items() if name not in (NAIVE, *SAID)}
    return {NAIVE: content[NAIVE], **others}


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
