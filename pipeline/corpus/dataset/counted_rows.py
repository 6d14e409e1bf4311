"""Which rows of annotations count, and what their columns say of it.

Rows are those of tables, records of JSON, annotations, rows of parquet files. Readers ask here
before they take captions from them: corpus.rows keeps some, several languages of one image are
refused, marks of rejected rows are said, and a second text that corrects the captions is asked
about.
"""

import operator
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from pipeline.corpus.dataset.cells import plain_name
from pipeline.corpus.dataset.conditions import (
    Conditions,
    cell_text,
    cell_texts,
    counted_values,
)
from pipeline.corpus.dataset.rejected import may_mark, rejected_rows
from pipeline.corpus.dataset.splits import split_named
from pipeline.corpus.params import CorpusConfig
from pipeline.runtime.errors import WorkbenchError

_LANGUAGES = re.compile(
    r"(?:\w+_)?(?:lang|language|locale|langue|sprache|idioma|lingua)(?:_?(?:code|id|name|tag))?"
    r"|iso_?639(?:_\d)?(?:_code)?"
)
# What kind of text a row has, and words of kinds that are no captions.
_KINDS = re.compile(r"(?:(?:text|caption|annotation|row|data)_)?(?:type|kind|task)|field")
_OTHER_KINDS = frozenset(
    {"question", "questions", "qa", "vqa", "answer", "answers", "title", "titles", "headline"}
    | {"ocr", "tag", "tags", "label", "labels", "keyword", "keywords", "grounding", "referring"}
    | {"detection", "box", "bbox", "instruction", "prompt", "negative", "foil"}
)
_SPLITS = re.compile(r"\w*(?:split|partition|subset)\w*")
# A second text that corrects the captions, and the noun in its name.
_HOW = "corrected|correction|final|human|edited|revised|reviewed|fixed|improved|proofread"
_NOUN = "caption|text|description|sentence"
_CORRECTED = (
    re.compile(rf"(?:{_HOW}|new)_(?P<noun>{_NOUN})s?"),
    re.compile(rf"(?P<noun>{_NOUN})s?_(?:{_HOW}|new|v\d+)"),
    re.compile(rf"(?P<noun>)(?:{_HOW})"),
)
_FEWEST_WORDS = 2  # of a text; a decision has one


@dataclass(frozen=True)
class Rows:
    """The rows of a file.

    images: of every row, as the file names it. texts: the caption of every row, or its first one.
    caption, split: the names of the columns of captions and of splits, "" for none. cells: by the
    names of columns or fields, what the rows have in those that may tell (`may_tell`). names: of
    all columns or fields that are there. unread: of those that are not read.
    """

    images: Sequence[str]
    texts: Sequence[str]
    caption: str = ""
    split: str = ""
    cells: Mapping[str, Sequence[object]] = field(default_factory=dict)
    names: Collection[str] = ()
    unread: Collection[str] = ()


class Counting(NamedTuple):
    """Which rows of every file count, in the order of the files, and lines for the user."""

    kept: list[list[bool]]
    remarks: tuple[str, ...]


def may_tell(name: str, config: CorpusConfig) -> bool:
    """Whether a column or field may say which rows count.

    Args:
        name: as its file writes it.
        config: corpus.rows.

    Returns:
        Whether it may, by its name alone.
    """
    plain = plain_name(name)
    called = (_LANGUAGES, _KINDS, _SPLITS, *_CORRECTED)
    return (
        Conditions.of(config.rows).have(name)
        or may_mark(name)
        or any(own.fullmatch(plain) for own in called)
    )


def counted_rows(place: str, files: Sequence[Rows], config: CorpusConfig) -> Counting:
    """Which rows count.

    Args:
        place: of the files, for messages.
        files: the rows of each.
        config: corpus.rows, and corpus.caption_field, which settles what the caption is.

    Returns:
        Which are kept, and lines about the others and about marks.

    Raises:
        WorkbenchError: corpus.rows names a column or a value that no row has, or keeps none; one
            image has captions of several languages or texts of several kinds; or there is a
            corrected text beside the caption.
    """
    conditions = Conditions.of(config.rows)
    kept = [[True] * len(rows.images) for rows in files]
    if conditions:
        conditions.check_names(place, chain.from_iterable(rows.names for rows in files))
        _check_values(place, files, conditions)
        kept = [_kept(rows, conditions) for rows in files]
        if not any(map(any, kept)):
            raise none_left(place, conditions)
        files = [_only(rows, own) for rows, own in zip(files, kept, strict=True)]
    left_out = conditions.left_out(sum(own.count(False) for own in kept))
    return Counting(kept, (*left_out, *told_by_rows(place, files, config)))


def none_left(place: str, conditions: Conditions) -> WorkbenchError:
    """The error for conditions that no row meets together.

    Args:
        place: of the rows.
        conditions: corpus.rows.

    Returns:
        The error, not raised.
    """
    return WorkbenchError(
        f"{place}: no row meets all of corpus.rows = {conditions.text!r}",
        "leave one of its conditions out",
    )


def told_by_rows(place: str, files: Sequence[Rows], config: CorpusConfig) -> tuple[str, ...]:
    """What the columns of rows that are kept say of whether they count.

    Args:
        place: of the files, for messages.
        files: the rows of each that are kept.
        config: as in `counted_rows`.

    Returns:
        Lines for the user.

    Raises:
        WorkbenchError: as `counted_rows`, but for corpus.rows.
    """
    conditions = Conditions.of(config.rows)
    images = [image for rows in files for image in rows.images]
    cells = _joined_cells(files)
    remarks: tuple[str, ...] = ()
    for name, own in cells.items():
        plain = plain_name(name)
        if conditions.have(name):
            continue
        if _LANGUAGES.fullmatch(plain):
            remarks += _languages(place, name, own, images=images, conditions=conditions)
        elif _KINDS.fullmatch(plain):
            _check_kinds(place, name, own, images=images, conditions=conditions)
    if config.caption_field is None:
        _check_corrected(place, files)
    if config.split_files is None:
        _check_one_division(place, files)
    return (*remarks, *rejected_rows(cells, conditions))


def _check_values(place: str, files: Sequence[Rows], conditions: Conditions) -> None:
    """Refuse values of corpus.rows that no row of any file has."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for rows in files:
        for name, cells in rows.cells.items():
            if conditions.have(name):
                found[plain_name(name)].update(cell_texts(cells))
    conditions.check_values(place, found)


def _kept(rows: Rows, conditions: Conditions) -> list[bool]:
    """Which rows of a file meet all conditions; a column that it lacks is empty."""
    own = {plain_name(name): cell_texts(cells) for name, cells in rows.cells.items()}
    nothing = [""] * len(rows.images)
    columns = {name: own.get(name, nothing) for name in conditions.values}
    return [
        conditions.hold(dict(zip(columns, row, strict=True)))
        for row in zip(*columns.values(), strict=True)
    ]


def _only(rows: Rows, kept: Sequence[bool]) -> Rows:
    """The rows that are kept."""
    places = [place for place, is_kept in enumerate(kept) if is_kept]
    cells = {}
    for name, own in rows.cells.items():
        values = list(own)
        cells[name] = [values[place] for place in places]
    images = list(rows.images)
    texts = list(rows.texts)
    return Rows(
        images=[images[place] for place in places],
        texts=[texts[place] for place in places],
        caption=rows.caption,
        split=rows.split,
        cells=cells,
        names=rows.names,
        unread=rows.unread,
    )


def _joined_cells(files: Sequence[Rows]) -> dict[str, list[str]]:
    """The texts of all files in the columns that are not read; "" where a file lacks one."""
    names = dict.fromkeys(name for rows in files for name in rows.cells if name in rows.unread)
    return {
        name: [
            cell
            for rows in files
            for cell in cell_texts(rows.cells.get(name, [""] * len(rows.images)))
        ]
        for name in names
    }


def _several(cells: Sequence[str], images: Sequence[str]) -> bool:
    """Whether an image has rows with different values."""
    pairs = {(image, cell.lower()) for image, cell in zip(images, cells, strict=True) if cell}
    return len(pairs) > len({image for image, _ in pairs})


def _languages(
    place: str, name: str, cells: Sequence[str], images: Sequence[str], conditions: Conditions
) -> tuple[str, ...]:
    """A line about languages of which each image has one; several of one image are refused."""
    values = Counter(filter(None, cells))
    if len({value.lower() for value in values}) < 2:
        return ()
    english = (value for value in values if value.lower().startswith("en"))
    first = next(english, next(iter(values)))
    way_out = f"corpus.rows: {conditions.with_value(name, first)}"
    if _several(cells, images):
        raise WorkbenchError(
            f"{place}: images have captions of several languages, by {name}: "
            f"{counted_values(values)}",
            f"set {way_out} in params.yaml (vse look --rows "
            f"{conditions.with_value(name, first)}); {_both(name, values)} reads two as one",
        )
    return (
        f"several languages, each image has one, by {name}: {counted_values(values)}; {way_out} "
        "reads one alone",
    )


def _both(name: str, values: Mapping[str, int]) -> str:
    """The conditions for two values of a column."""
    return ",".join(f"{name}={value}" for value in [*values][:2])


def _check_kinds(
    place: str, name: str, cells: Sequence[str], images: Sequence[str], conditions: Conditions
) -> None:
    """Refuse texts of several kinds of one image, such as questions beside captions."""
    values = Counter(filter(None, cells))
    others = [value for value in values if _OTHER_KINDS.intersection(_words(value))]
    if not others or not _several(cells, images):
        return
    first = next((value for value in values if value not in others), next(iter(values)))
    way_out = conditions.with_value(name, first)
    raise WorkbenchError(
        f"{place}: images have texts of several kinds, by {name}: {counted_values(values)}",
        f"set corpus.rows: {way_out} in params.yaml (vse look --rows {way_out})",
    )


def _words(value: str) -> list[str]:
    return re.findall(r"[a-z]+", value.lower())


def _check_corrected(place: str, files: Sequence[Rows]) -> None:
    """Refuse a column of texts that is called as if it corrected the captions, and differs."""
    for rows in files:
        for name in rows.unread:
            if name not in rows.cells or not _may_correct(name, rows.caption):
                continue
            cells = [" ".join(cell_text(cell).split()) for cell in rows.cells[name]]
            if not _are_texts(cells):
                continue
            pairs = zip(cells, rows.texts, strict=True)
            if any(cell and cell != " ".join(str(text).split()) for cell, text in pairs):
                caption = rows.caption or "caption"
                raise WorkbenchError(
                    f"{place}: {caption} and {name} are both captions, and differ",
                    f"set corpus.caption_field: {name} in params.yaml, or {caption}",
                )


def _check_one_division(place: str, files: Sequence[Rows]) -> None:
    """Refuse a second column of splits that divides the images otherwise than the first."""
    for rows in files:
        own = [split_named(cell_text(cell)) for cell in rows.cells.get(rows.split, ())]
        others = [name for name in rows.unread if _SPLITS.fullmatch(plain_name(name))]
        for name in others if any(own) else ():
            said = [split_named(cell_text(cell)) for cell in rows.cells.get(name, ())]
            if said and None not in said and any(map(operator.ne, own, said)):
                raise WorkbenchError(
                    f"{place}: {rows.split} and {name} say different splits",
                    f"take the column out that is not meant, {rows.split} or {name}",
                )


def _may_correct(name: str, caption: str) -> bool:
    """Whether a column is called as the corrected texts of that of the captions; `corrected_text`
    beside `caption` may be another text."""
    matches = (own.fullmatch(plain_name(name)) for own in _CORRECTED)
    nouns = [match["noun"] for match in matches if match is not None]
    return any(noun in ("caption", "") or noun in plain_name(caption) for noun in nouns)


def _are_texts(cells: Sequence[str]) -> bool:
    """Whether most filled cells have several words, or are longer than a word."""
    filled = [cell for cell in cells if cell]
    texts = [cell for cell in filled if len(cell.split()) >= _FEWEST_WORDS or not cell.isascii()]
    return 2 * len(texts) > len(filled)
