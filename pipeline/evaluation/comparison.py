"""What all models reach, side by side: their files, the tables, and what a reader must know.

`metrics_files` finds the files of a comparison, `read_results` reads them and holds them together,
`described` tells the tables of all figures; `extended_report` sets figures by the corpus's own
pairs beside those by extended positives.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from pipeline.evaluation.figures import RECALLS, Column, columns_of
from pipeline.evaluation.rank_file import (
    COLUMNS,
    EXTENDED,
    RankRecord,
    check_metrics,
    check_model,
    columns_in,
    read_ranks,
)
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.text import read_json


def metrics_files(paths: Sequence[Path], models: Sequence[str]) -> tuple[Path, ...]:
    """Metrics files, folders replaced by their files; WorkbenchError for those of other models."""
    inside = [file for path in paths if path.is_dir() for file in sorted(path.glob("*.json"))]
    if strangers := [str(file) for file in inside if file.stem not in models]:
        raise WorkbenchError(
            f"{listing(strangers)}: dvc.yaml evaluates {listing(models, 100)} alone",
            "delete what is left of a model or an average that is no more, or bring it back: "
            "dvc.yaml lists models, params.yaml averages",
        )
    return of_models(paths, models, ".json")


def of_models(paths: Sequence[Path], models: Sequence[str], ending: str) -> tuple[Path, ...]:
    """Files of models: those named, and of each folder the files <model><ending> that there are."""
    files: list[Path] = []
    for path in paths:
        beside = [path / f"{model}{ending}" for model in models]
        files += [file for file in beside if file.is_file()] if path.is_dir() else [path]
    return tuple(files)


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


# Only the page shows these, so that the table fits a terminal; a metric of your own is shown.
HIDDEN = ("medr", "meanr", "mapr")
APART = "Transductive, with all test queries at once: compare these only with each other"
BEHIND = (
    "Behind: how far rsum is below that of the first model, and the interval of this difference "
    "by a paired bootstrap; one that holds 0 is within noise."
)
DISTANCES = (
    "Are these distances? Larger scores must be better: change the sign of distances. Equal scores "
    "count against a model."
)


@dataclass(frozen=True)
class TableRow:
    model: str
    criterion: str
    figures: Mapping[str, Any]
    interval: Sequence[float] | None  # [low, high] of rsum, None without resamples

    @property
    def label(self) -> str:
        """ "vse", or "vse + csls" for another criterion than naive."""
        return self.model if self.criterion == NAIVE else f"{self.model} + {self.criterion}"


def rows_of(results: Sequence[Result]) -> list[TableRow]:
    """A row per model and criterion: the naive ones by falling rsum, then all others by theirs."""
    rows = []
    for result in results:
        for criterion, figures in result.criteria.items():
            limits = result.record.intervals.get(criterion)
            rows.append(TableRow(result.name, criterion, figures, limits and limits["rsum"]))
    return sorted(rows, key=lambda row: (row.criterion != NAIVE, -row.figures["rsum"]))


def groups_of(results: Sequence[Result]) -> list[list[TableRow]]:
    """The rows of the naive criterion; then those of transductive ones, if there are any."""
    groups = groupby(rows_of(results), lambda row: row.criterion != NAIVE)
    return [list(rows) for _, rows in groups]


def best_of(rows: Sequence[TableRow]) -> list[list[bool]]:
    """For each row and figure, whether none is better as printed; all False for a single row."""
    signs = {c: 1 if c.better == "larger" else -1 for c in columns_in(rows[0].figures)}
    table = [[s * float(shown(c.of(row.figures))) for c, s in signs.items()] for row in rows]
    best, several = [max(values) for values in zip(*table, strict=True)], len(rows) > 1
    return [[several and a == top for a, top in zip(row, best, strict=True)] for row in table]


def notes(results: Sequence[Result]) -> list[str]:
    """What must be known to read the table, a line each."""
    rows, chance = rows_of(results), results[0].record.chance["rsum"]
    external = [result.name for result in results if result.external]
    shortlists = [
        f"{result.name}: {result.shortlist} of {result.images:,} images per caption "
        f"were scored in full, all others were moved behind them{_held(result)}."
        for result in results
        if result.shortlist is not None and result.shortlist < result.images
    ]
    costs = [
        f"{result.name}: {of['second']} orders the best {of['top']:,} of {of['first']} and scores "
        f"{of['i2t']:.1f} % (image queries) and {of['t2i']:.1f} % (caption queries) of all pairs."
        for result in results
        if (of := result.rerank)
    ]
    judged = [(row, row.interval) for row in rows if row.interval]
    worse = [row for row, (_, high) in judged if high < chance]
    lost = [row.label for row, (low, high) in judged if low <= chance <= high]
    programs = f"Scores of other programs, no ranking loss of ours: {', '.join(external)}."
    said = [*([programs] if external else []), *shortlists, *costs]
    if lost:
        said.append(f"Cannot be told from chance: {', '.join(lost)}.")
    if worse:
        asked = f" {DISTANCES}" if any(row.model in external for row in worse) else ""
        said.append(f"Worse than chance: {', '.join(row.label for row in worse)}.{asked}")
    return said


def _held(result: Result) -> str:
    held = result.criteria[NAIVE].get("in_shortlist")
    if held is None:
        return ""
    ways = f"{shown(held['i2t'])} % of the images and {shown(held['t2i'])} % of the captions"
    return f"; a true pair is among these for {ways}"


def images_of(result: Result) -> str:
    """How many images were evaluated: "5,000 images", or "the first 1,000 of 5,000 images"."""
    first = "" if result.test_images is None else f"the first {len(result.record.image_ids):,} of "
    return first + counted(result.images, "image")


def shown(value: float) -> str:
    return f"{value:.1f}"


def described(
    results: Sequence[Result], dataset: str, behind: Mapping[str, Any] | None = None
) -> list[str]:
    """What was evaluated, what must be known to read the tables, and the tables, as markdown.
    behind: what `standing.behind_first` found."""
    record = results[0].record
    return [
        f"Dataset {dataset}. Test split: {images_of(results[0])}, "
        f"{counted(len(record.caption_ids), 'caption')}, protocol {record.protocol}.",
        f"Recalls in percent; i2t: image queries, t2i: caption queries; {_share(results)}: "
        "bootstrap interval of rsum.",
        *([BEHIND] if behind else []),
        *notes(results),
        "",
        *tables(results, behind),
    ]


def tables(results: Sequence[Result], behind: Mapping[str, Any] | None = None) -> list[str]:
    """The table of the naive criterion and, after a sentence, that of transductive ones: recalls,
    rsum and its interval, sorted by rsum; aligned, as markdown and terminals show it."""
    chance = results[0].record.chance
    every = columns_in(results[0].criteria[NAIVE])
    columns = [column for column in every if column.keys[-1] not in HIDDEN]
    titles = [c.label if c.keys[-1] == RECALLS[0] else c.title for c in columns]
    plain, *others = groups_of(results)
    head = ["model", *titles, _share(results)]
    body = [_cells(row, columns) for row in plain]
    body.append(["chance", *(shown(column.of(chance)) for column in columns), ""])
    if behind:
        head.append("behind")
        body = [[*row, behind[row[0]].amount if row[0] in behind else ""] for row in body]
    lines = aligned([head, *body])
    for rows in others:
        criteria = ", ".join(dict.fromkeys(row.criterion for row in rows))
        lines += ["", f"{APART} ({criteria}):", ""]
        lines += aligned([head[: len(columns) + 2], *(_cells(row, columns) for row in rows)])
    return lines


def _cells(row: TableRow, columns: Sequence[Column]) -> list[str]:
    figures = (shown(column.of(row.figures)) for column in columns)
    return [row.label, *figures, interval_text(row.interval)]


def _share(results: Sequence[Result]) -> str:
    return f"{100 * results[0].record.confidence:g} %"


def interval_text(interval: Sequence[float] | None) -> str:
    """ "232.1 to 283.5", or a dash where no intervals were drawn."""
    return "-" if interval is None else f"{shown(interval[0])} to {shown(interval[1])}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A markdown table with columns padded to one width; the first row is the head."""
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append(f"| {' | '.join([first.ljust(widths[0]), *cells])} |")
    rule = "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])])
    return [lines[0], f"|{rule}|", *lines[1:]]


SHOWN = ("r1", "mapr", "rprecision", "ndcg", "rsum")  # of all that metrics files have
OWN = frozenset(column.keys for column in COLUMNS)


def beside_rows(results: Sequence[Result]) -> list[list[str]]:
    """A head, a row per model and criterion and one of chance, with the interval of rsum by the
    list in the last column; none without extended positives."""
    record, by_name = results[0].record, {result.name: result for result in results}
    if results[0].extended is None:
        return []
    titles = [column.label + (" ext" if of_list else "") for column, of_list in _columns()]
    rows = [["model", *titles, f"{100 * record.confidence:g} %"]]
    for row in rows_of(results):
        result = by_name[row.model]
        extended = (result.extended or {})[row.criterion]
        limits = result.record.extended["intervals"].get(row.criterion)
        interval = interval_text(limits and limits["rsum"])
        rows.append([row.label, *_figures(row.figures, extended), interval])
    return [*rows, ["chance", *_figures(record.chance, record.extended["chance"]), ""]]


def extended_note(results: Sequence[Result]) -> str:
    """Which list it is, how many queries it judges, and what the titles mean."""
    extended, record = results[0].extended or {}, results[0].record
    queries = extended["queries"]
    return (
        f"Positives {extended['positives']}: {extended['pairs']:,} pairs; ext: of the "
        f"{queries['i2t']:,} of {len(record.image_ids):,} images and {queries['t2i']:,} of "
        f"{len(record.caption_ids):,} captions that the list judges, against all items. "
        "R-P: R-precision; the interval is of rsum ext."
    )


def extended_report(results: Sequence[Result]) -> str:
    """The section of the comparison in markdown; empty without extended positives."""
    rows = beside_rows(results)
    if not rows:
        return ""
    lines = ["", "## Extended positives", "", extended_note(results), "", *aligned(rows)]
    return "\n".join(lines) + "\n"


def _columns() -> list[tuple[Column, bool]]:
    """The figures, each by the corpus's own pairs (False) if it has it, and by the list (True)."""
    columns = [column for column in columns_of(EXTENDED) if column.keys[-1] in SHOWN]
    cases = ((column, of_list) for column in columns for of_list in (False, True))
    return [(column, of_list) for column, of_list in cases if of_list or column.keys in OWN]


def _figures(plain: Any, extended: Any) -> list[str]:
    return [shown(column.of(extended if of_list else plain)) for column, of_list in _columns()]
