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

import numpy as np

from pipeline.evaluation.figures import RECALLS, Column, columns_of
from pipeline.evaluation.known_splits import Certificate, certify
from pipeline.evaluation.rank_file import (
    COLUMNS,
    EVALUATE_AGAIN,
    EXTENDED,
    RankRecord,
    check_metrics,
    check_model,
    columns_in,
    read_ranks,
)
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.text import read_json

NAIVE = "naive"
# of a metrics file no criteria; the first ones are fields of Result
OPTIONAL = ("shortlist", "test_images", "extended", "external", "tied", "rerank", "begins_as")
ABOUT = (*OPTIONAL, "protocol", "features", "split")
# Only the page shows these, so that the table fits a terminal; a metric of your own is shown.
HIDDEN = ("medr", "meanr", "mapr")
# of extended positives, of all that metrics files have
SHOWN_EXTENDED = ("r1", "mapr", "rprecision", "ndcg", "rsum")
PLAIN_KEYS = frozenset(column.keys for column in COLUMNS)
APART = "Transductive, with all test queries at once: compare these only with each other"
BEHIND = (
    "Behind: how far rsum is below that of the first model, and the interval of this difference "
    "by a paired bootstrap; one that holds 0 is within noise. = : cannot be told from the first, "
    "among all pairs of the table (Holm)."
)
TIE = " ="  # behind the difference of a row that cannot be told from the first
DISTANCES = (
    "Are these distances? Larger scores must be better: change the sign of distances. Equal scores "
    "count against a model."
)
MOSTLY = 50  # percent of the queries whose ties are the reason for a rank
TIED = (
    "its true items score as high as others, which counts against a model; the sign of the scores "
    "is not the reason. Save scores that differ, such as logits in the place of probabilities."
)


def metrics_files(paths: Sequence[Path], models: Sequence[str]) -> tuple[Path, ...]:
    """Metrics files, folders replaced by their files.

    Args:
        paths: files, and folders that hold them.
        models: names of all that dvc.yaml evaluates.

    Returns:
        Files alone, in the order of the paths.

    Raises:
        WorkbenchError: a folder with a file of another name.
    """
    inside = [file for path in paths if path.is_dir() for file in sorted(path.glob("*.json"))]
    strangers = [str(file) for file in inside if file.stem not in models]
    if strangers:
        raise WorkbenchError(
            f"{listing(strangers)}: dvc.yaml evaluates {listing(models, 100)} alone",
            "delete what is left of a model or an average that is no more, or bring it back: "
            "dvc.yaml lists models, params.yaml averages",
        )
    return files_of_models(paths, models, ".json")


def files_of_models(paths: Sequence[Path], models: Sequence[str], ending: str) -> tuple[Path, ...]:
    """Files that are named, and of folders the files of models that there are.

    Args:
        paths: files, and folders that hold them.
        models: names, in the order of the files.
        ending: of a file's name behind that of its model, such as ".h5".

    Returns:
        The files, each once.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            beside = [path / f"{model}{ending}" for model in models]
            files += [file for file in beside if file.is_file()]
        else:
            files.append(path)
    return tuple(files)


@dataclass(frozen=True)
class Result:
    """What evaluation wrote of one model.

    Attributes:
        name: of the model.
        criteria: criterion -> figures, naive first.
        record: what its rank file says.
        ranks: path of its rank file.
        shortlist: images per caption that had a full score, None where all had.
        test_images: of which the evaluated images are the first, None where they are all.
        extended: what the metrics file has of extended positives, None without.
        external: whether another program made the scores.
        tied: of such scores: percent of the queries whose best true item is tied with others.
        rerank: of two models one after the other: first, second, top, and by direction the
            percentage of all pairs that the second scores; None for others.
        begins_as: the model that it was before its first step; None for one that began at random.
    """

    name: str
    criteria: dict[str, dict[str, Any]]
    record: RankRecord
    ranks: Path
    shortlist: int | None = None
    test_images: int | None = None
    extended: dict[str, Any] | None = None
    external: bool = False
    tied: float = 0.0
    rerank: dict[str, Any] | None = None
    begins_as: str | None = None

    @property
    def images(self) -> int:
        """Images of the test split, evaluated or not."""
        return self.test_images or len(self.record.image_ids)


def read_results(metrics: Sequence[Path], ranks: Sequence[Path]) -> list[Result]:
    """Metrics files and the rank file of the same stem each, all of the same queries.

    Args:
        metrics: the metrics files.
        ranks: the rank files, in any order.

    Returns:
        A result for each metrics file, in their order.

    Raises:
        WorkbenchError: a file without its partner, or not written with it, files of other kinds,
            and results that cannot be compared.
    """
    partners = {path.stem: path for path in ranks}
    results: list[Result] = []
    for path in metrics:
        if path.stem not in partners:
            raise WorkbenchError(f"{path}: no rank file named {path.stem}.h5 among --ranks")
        partner = partners.pop(path.stem)
        content = read_metrics(path)
        record = read_ranks(partner)
        check_model(partner, record)
        check_metrics(path, content, partner, record.metrics_sha256)
        about = {name: content[name] for name in OPTIONAL if name in content}
        results.append(Result(path.stem, _criteria(content), record, partner, **about))
    if partners:
        raise WorkbenchError(f"rank files without a metrics file: {', '.join(sorted(partners))}")
    _check_comparable(results)
    return results


def read_metrics(path: Path) -> dict[str, Any]:
    """The content of a metrics file; WorkbenchError naming the first figure that is missing."""
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file", EVALUATE_AGAIN)
    content = read_json(path)
    where = NAIVE
    try:
        columns = columns_in(content[NAIVE])
        for name, part in _criteria(content).items():
            for column in columns:
                where = ".".join([name, *column.keys])
                column.of(part)
    except (LookupError, TypeError, AttributeError):
        message = f"{path}: not a metrics file: {where} is missing"
        raise WorkbenchError(message, EVALUATE_AGAIN) from None
    return dict(content)


def _criteria(content: Mapping[str, Any]) -> dict[str, Any]:
    others = {name: part for name, part in content.items() if name not in (NAIVE, *ABOUT)}
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
        for what, value_of, key in settings:
            left = value_of(first)
            right = value_of(other)
            if left != right:
                values = f": {left} and {right}" if isinstance(left, str) else ""
                raise WorkbenchError(
                    f"{names} differ in {what}{values}",
                    f"evaluate both with the same {key}: dvc repro",
                )
        has_same_images = first.record.image_ids == other.record.image_ids
        if not has_same_images or first.record.caption_ids != other.record.caption_ids:
            raise WorkbenchError(
                f"{names} were evaluated on different images or captions",
                "score both on the same corpus: dvc repro",
            )


def _list_of(result: Result) -> tuple[Any, ...]:
    """What tells one list of extended positives on one test split from another."""
    return tuple((result.extended or {}).get(key) for key in ("positives", "pairs", "queries"))


@dataclass(frozen=True)
class TableRow:
    """What a model reaches under one criterion.

    Attributes:
        model: its name.
        criterion: "naive" or another.
        figures: as `figures.summarise`.
        interval: [low, high] of rsum, None without resamples.
    """

    model: str
    criterion: str
    figures: Mapping[str, Any]
    interval: Sequence[float] | None

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
    columns = columns_in(rows[0].figures)
    table = np.array([[float(shown(column.of(row.figures))) for column in columns] for row in rows])
    signs = [1 if column.better == "larger" else -1 for column in columns]
    signed = table * signs
    is_best = (signed == signed.max(axis=0)) & (len(rows) > 1)
    return [list(map(bool, row)) for row in is_best]


def notes(results: Sequence[Result]) -> list[str]:
    """What must be known to read the table, a line each."""
    rows = rows_of(results)
    chance = results[0].record.chance["rsum"]
    lines = []
    external = [result.name for result in results if result.external]
    if external:
        lines.append(f"Scores of other programs, no ranking loss of ours: {', '.join(external)}.")
    for result in results:
        if result.shortlist is not None and result.shortlist < result.images:
            lines.append(
                f"{result.name}: {result.shortlist} of {result.images:,} images per caption "
                f"were scored in full, all others were moved behind them{_held(result)}."
            )
    for result in results:
        cost = result.rerank
        if cost:
            lines.append(
                f"{result.name}: {cost['second']} orders the best {cost['top']:,} of "
                f"{cost['first']} and scores {cost['i2t']:.1f} % (image queries) and "
                f"{cost['t2i']:.1f} % (caption queries) of all pairs."
            )
    lost = []
    worse = []
    for row in rows:
        if row.interval:
            low, high = row.interval
            if high < chance:
                worse.append(row)
            elif low <= chance:
                lost.append(row.label)
    if lost:
        lines.append(f"Cannot be told from chance: {', '.join(lost)}.")
    tied = {result.name: result.tied for result in results if result.tied >= MOSTLY}
    if worse:
        is_question = any(row.model in external and row.model not in tied for row in worse)
        question = f" {DISTANCES}" if is_question else ""
        names = ", ".join(row.label for row in worse)
        lines.append(f"Worse than chance: {names}.{question}")
        for name in dict.fromkeys(row.model for row in worse if row.model in tied):
            lines.append(f"{name}: in {shown(tied[name])} % of the queries {TIED}")
    return lines


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


def certificate_of(record: RankRecord) -> Certificate:
    """Which known test split a rank file is of."""
    return certify(record.image_ids, len(record.caption_ids), record.protocol)


def shown(value: float) -> str:
    return f"{value:.1f}"


def described(
    results: Sequence[Result], dataset: str, behind: Mapping[str, Any] | None = None
) -> list[str]:
    """What was evaluated, what must be known to read the tables, and the tables, as markdown.

    Args:
        results: of all models.
        dataset: its name, for the text.
        behind: as `standing.behind_first`; None for tables without these differences.

    Returns:
        Lines of markdown.
    """
    record = results[0].record
    return [
        f"Dataset {dataset}. Test split: {images_of(results[0])}, "
        f"{counted(len(record.caption_ids), 'caption')}, protocol {record.protocol}.",
        f"Known test split: {certificate_of(record).text}.",
        f"Recalls in percent; i2t: image queries, t2i: caption queries; {_share(results)}: "
        "bootstrap interval of rsum.",
        *([BEHIND] if behind else []),
        *notes(results),
        "",
        *tables(results, behind),
    ]


def tables(results: Sequence[Result], behind: Mapping[str, Any] | None = None) -> list[str]:
    """The table of the naive criterion and, after a sentence, that of transductive ones.

    They have recalls, rsum and its interval, and are sorted by rsum.

    Args:
        results: of all models.
        behind: as `standing.behind_first`; None for tables without these differences.

    Returns:
        Aligned lines, as markdown and terminals show them.
    """
    chance = results[0].record.chance
    every = columns_in(results[0].criteria[NAIVE])
    columns = [column for column in every if column.keys[-1] not in HIDDEN]
    titles = [column.label if column.keys[-1] == RECALLS[0] else column.title for column in columns]
    plain, *others = groups_of(results)
    head = ["model", *titles, _share(results)]
    body = [_cells(row, columns) for row in plain]
    body.append(["chance", *(shown(column.of(chance)) for column in columns), ""])
    if behind:
        head.append("behind")
        body = [[*row, _behind(behind.get(row[0]))] for row in body]
    lines = aligned([head, *body])
    for rows in others:
        criteria = ", ".join(dict.fromkeys(row.criterion for row in rows))
        lines += ["", f"{APART} ({criteria}):", ""]
        lines += aligned([head[: len(columns) + 2], *(_cells(row, columns) for row in rows)])
    return lines


def _behind(difference: Any) -> str:
    """ "2.5 [-0.5, 5.0] =": a difference from the first row, and whether it is none."""
    if difference is None:
        return ""
    return f"{difference.amount}{TIE if difference.tied else ''}"


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
    widths = [max(3, max(map(len, column))) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append(f"| {' | '.join([first.ljust(widths[0]), *cells])} |")
    rule = "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])])
    return [lines[0], f"|{rule}|", *lines[1:]]


def beside_rows(results: Sequence[Result]) -> list[list[str]]:
    """A head, a row per model and criterion and one of chance, with the interval of rsum by the
    list in the last column; none without extended positives."""
    record = results[0].record
    by_name = {result.name: result for result in results}
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
    extended = results[0].extended or {}
    record = results[0].record
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
    columns = [column for column in columns_of(EXTENDED) if column.keys[-1] in SHOWN_EXTENDED]
    cases = ((column, of_list) for column in columns for of_list in (False, True))
    return [(column, of_list) for column, of_list in cases if of_list or column.keys in PLAIN_KEYS]


def _figures(plain: Any, extended: Any) -> list[str]:
    return [shown(column.of(extended if of_list else plain)) for column, of_list in _columns()]
