"""Tables of captions as people have them: any separator, columns in any order, several captions.

A table is text with a line for each caption or image. Its first line names the columns
(cells.py), or the lines themselves are of a known form: `name.jpg#0<TAB>text`, as Flickr8k and
Flickr30k were published, or an image's file and a caption. Fields are read as RFC 4180 says, so a
quoted field may hold separators and line ends. Captions are often written without quotes around
their commas: the rest of such a line is the caption, where the caption is the last column.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pandas as pd

from pipeline.dataset.cells import (
    CAPTION_COLUMNS,
    IMAGE_COLUMNS,
    SPLIT_COLUMNS,
    caption_columns,
    first_of,
    listed_texts,
    plain_name,
)
from pipeline.dataset.folder import IMAGE_ENDINGS
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.text import Problems, read_text

SEPARATORS = ("\t", "|", ";", ",")
NUMBER_COLUMNS = ("comment_number", "caption_number", "sentence_number")
LINES_LOOKED_AT = 100
LONGEST_FIELD = 1 << 20  # characters; an opening quote without its end reads no further than that
# Flickr8k.token.txt and results_20130124.token; Flickr8k-CN has the language between, and a blank.
_TOKEN_LINE = re.compile(
    r"(?P<image>[^\t\r\n]+?)#(?:[A-Za-z]+#)?(?P<number>\d{1,9})[\t ](?P<text>.*)"
)
# One line of the published results.csv lacks its second bar: "2199200615.jpg| 4   A dog runs ...".
_NUMBER_AND_TEXT = re.compile(r"(\d{1,9})\s+(\S.*)", re.DOTALL)
_QUOTED_FIELD = re.compile(r'\s*"((?:[^"]|"")*)"\s*')
_SEPARATOR_LINE = re.compile(r"sep=[,;|\t]?")  # what Excel reads and writes above a header


@dataclass(frozen=True)
class Form:
    """How the lines of a table are read.

    separator: between two fields; empty for lines of the form `name#0<TAB>text`. width: number of
    fields. image, split, number: the places of these columns, None for one that is not there.
    captions: the places of the columns of captions. has_header: whether the first line names the
    columns. described: the form in words, for messages.
    """

    separator: str
    width: int
    image: int
    captions: tuple[int, ...]
    split: int | None = None
    number: int | None = None
    has_header: bool = True
    described: str = ""


def find_form(text: str) -> Form | None:
    """How a table is to be read, from its beginning; None where it is no table of captions.

    Args:
        text: the first lines of a file, or all of it.
    """
    lines = [line for line in _lines(text[: 1 << 20])[:LINES_LOOKED_AT] if line.strip()]
    if lines and _SEPARATOR_LINE.fullmatch(lines[0].strip()):
        lines = lines[1:]
    if not lines:
        return None
    forms = [form for separator in SEPARATORS if (form := _named_form(lines[0], separator))]
    if forms:
        return max(forms, key=lambda form: form.width)
    whole = lines[:-1] if len(lines) > 1 else lines  # the last one may be cut
    if all(_TOKEN_LINE.fullmatch(line) for line in whole):
        described = "image#number TAB text"
        return Form("", 3, 0, (2,), number=1, has_header=False, described=described)
    return next((form for separator in SEPARATORS if (form := _bare_form(whole, separator))), None)


def _named_form(header: str, separator: str) -> Form | None:
    """The form of a table whose first line names an image and a caption."""
    names = [plain_name(name) for name in header.split(separator)]
    image = _place_of(names, IMAGE_COLUMNS)
    captions = caption_columns(tuple(names))
    if image is None or not captions:
        return None
    return Form(
        separator=separator,
        width=len(names),
        image=image,
        captions=tuple(names.index(name) for name in captions[0]),
        split=_place_of(names, SPLIT_COLUMNS),
        number=_place_of(names, NUMBER_COLUMNS),
        described=repr(header.strip()[:80]),
    )


def _place_of(names: Sequence[str], wanted: Iterable[str]) -> int | None:
    """The place of the first of some columns that is there."""
    name = first_of(names, wanted)
    return None if name is None else names.index(name)


def _bare_form(lines: Sequence[str], separator: str) -> Form | None:
    """The form of lines without a header: an image's file, a separator, a caption."""
    for line in lines:
        image, found, text = line.partition(separator)
        is_image = image.strip().strip('"').lower().endswith(IMAGE_ENDINGS)
        if not (found and is_image and text.strip()):
            return None
    described = f"image{separator}caption, without a header".replace("\t", " TAB ")
    return Form(separator, 2, 0, (1,), has_header=False, described=described)


def first_images(text: str) -> list[str] | None:
    """The images of the first rows of a table; None where it is no table.

    Args:
        text: the beginning of a file.
    """
    form = find_form(text)
    if form is None:
        return None
    fields = _fields(text, form) if form.separator else _token_fields(text)
    rows = islice(fields, LINES_LOOKED_AT)
    return [cells[form.image].strip() for _, cells in rows if len(cells) == form.width]


def read_captions(path: Path) -> pd.DataFrame:
    """All captions of a table, in the order of the file.

    Args:
        path: a file in UTF-8, or in UTF-16 with its mark.

    Returns:
        Columns image (as the table names it), text, number (the caption's among those of its
        image, -1 where the table has none) and split (as the table writes it, "" where it has
        none). A cell that holds a list of texts, as pandas writes one, gives a row for each.

    Raises:
        WorkbenchError: the file is no table of captions, or lines cannot be read; they are named.
    """
    text = read_text(path)
    form = find_form(text)
    if form is None:
        first = text.lstrip("\n\r ").partition("\n")[0].strip()
        raise WorkbenchError(
            f"{path}, line 1: {first[:60]!r}: neither the names of columns, of which one is an "
            f"image ({listing(IMAGE_COLUMNS, 4)}) and one a caption ({listing(CAPTION_COLUMNS, 4)})"
            ", nor an image's file and a caption",
            "write a first line that names the columns, such as image,caption",
        )
    cells = quick_cells(text, form)
    if cells is None or not _are_sound(cells, form).all():
        cells = exact_cells(text, form)
    sound = _are_sound(cells, form)
    problems = Problems(str(path))
    problems.add(f"lines not of the form {form.described}, numbers", cells.index[~sound])
    quotes = ", or put quotes around fields that hold a separator" if form.separator else ""
    problems.raise_if_any(f"mend these lines{quotes}")
    return _captions_in(cells, form)


def quick_cells(text: str, form: Form) -> pd.DataFrame | None:
    """The cells of a table as pandas reads them, or None where its quotes need a closer look.

    Args:
        text: the whole table.
        form: that of the table.

    Returns:
        A column of texts for each field, by its place; a missing field is not a text.
    """
    if not form.separator or "\0" in text or text.count("\r") != text.count("\r\n"):
        return None
    if not _quotes_are_around_fields(text, form.separator):
        return None
    lines = _lines(text[: 1 << 20])
    first = _first_row(lines, form)
    plain = text.replace("\r\n", "\n")
    body = plain[sum(len(line) + 1 for line in lines[:first]) :]
    header = form.separator.join(f"c{place}" for place in range(form.width))
    try:
        rows = csv.reader(io.StringIO(body), delimiter=form.separator, skipinitialspace=True)
        if len(next(filter(None, rows), [])) != form.width:
            return None  # pandas would take a longer first row for an index
        cells = pd.read_csv(
            io.StringIO(f"{header}\n{body}"),
            sep=form.separator,
            dtype=str,
            keep_default_na=False,
            skipinitialspace=True,
            engine="c",
        )
    except (ValueError, OverflowError, csv.Error):  # ParserError is a ValueError
        return None
    cells.columns = pd.RangeIndex(form.width)
    for place in range(form.width):
        over_lines = cells[place].str.contains("\n", regex=False).fillna(False)
        for cell in cells[place][over_lines]:
            if _begins_rows(cell.split("\n")[1:], form):
                return None
    return cells


def _quotes_are_around_fields(text: str, separator: str) -> bool:
    """Whether each quote of a text begins or ends a field, or is doubled inside one."""
    ends = (f'{separator}"', '\\n"', f'"{separator}', '"\n', '"\r\n')
    if text.count('"') == sum(map(text.count, ends)) and '""' not in text:
        return True  # counted, which is quicker than to look at each
    beside = re.escape(separator)
    return not re.search(rf'(?<![{beside}\n" ])"(?![{beside}\r\n"])', text)


def exact_cells(text: str, form: Form) -> pd.DataFrame:
    """The cells of a table, row by row, with lines that only people can read.

    Args:
        text: the whole table.
        form: that of the table.

    Returns:
        As `quick_cells`; the index is the number of the line in which a row begins, from 1.
    """
    fields = list(_fields(text, form) if form.separator else _token_fields(text))
    rows = [cells if len(cells) == form.width else [None] * form.width for _, cells in fields]
    lines = [line for line, _ in fields]
    return pd.DataFrame(rows, index=lines, columns=range(form.width), dtype=object)


def _are_sound(cells: pd.DataFrame, form: Form) -> "pd.Series[bool]":
    """Whether each row of a table has all its fields, an image, and a number where it should."""
    sound = cells.notna().all(axis=1)
    images = cells[form.image].where(sound, "").astype(str).str.strip()
    sound &= images != ""
    if form.number is not None:
        numbers = cells[form.number].where(sound, "0").astype(str).str.strip()
        sound &= numbers.str.fullmatch(r"[0-9]{1,9}")
    return sound


def _captions_in(cells: pd.DataFrame, form: Form) -> pd.DataFrame:
    """The captions of sound rows, as `read_captions` returns them."""
    columns = [cells[place].astype(str).str.strip() for place in form.captions]
    split = "" if form.split is None else cells[form.split].str.strip().to_numpy()
    alone = len(form.captions) == 1
    numbers = pd.Series(-1, index=cells.index)
    if form.number is not None and alone:
        numbers = cells[form.number].astype(str).str.strip().astype("int64")
    rows = pd.DataFrame(
        {
            "image": cells[form.image].astype(str).str.strip().to_numpy(),
            "text": columns[0].to_numpy() if alone else list(zip(*columns, strict=True)),
            "number": numbers.to_numpy(),
            "split": split,
        }
    )
    if not alone:
        rows = rows.explode("text", ignore_index=True)
        rows = rows[rows["text"] != ""].reset_index(drop=True)
    if _hold_lists(rows["text"].head(LINES_LOOKED_AT)):
        rows["text"] = rows["text"].map(lambda cell: listed_texts(cell) or [cell])
        rows["number"] = -1
        rows = rows.explode("text", ignore_index=True)
        rows["text"] = rows["text"].str.strip()
    return rows


def _token_fields(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line number, image, number and caption of every line `name#0<TAB>text`; a line of another
    form has one field alone."""
    for line, content in enumerate(text.split("\n"), 1):
        if content.strip():
            match = _TOKEN_LINE.fullmatch(content.rstrip("\r"))
            yield line, [content] if match is None else [*match.groups()]


def _fields(text: str, form: Form) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of every row below the header, with quotes or without."""
    lines = _lines(text)
    place = _first_row(lines, form)
    while place < len(lines):
        try:
            for row, end in _quoted_rows(lines, place, form.separator):
                if _begins_rows(lines[place + 1 : end], form):
                    raise csv.Error("a quote that is not closed in its own row")
                if row:
                    yield place + 1, _fitted(row, lines[place:end], form)
                place = end
        except csv.Error:
            # A quote that encloses no whole field, or is never closed, is part of the text.
            yield place + 1, _fitted(_unquoted(lines[place], form), [], form)
            place += 1


def _lines(text: str) -> list[str]:
    """The lines of a text, of any system, without their ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _first_row(lines: Sequence[str], form: Form) -> int:
    """The place of the first line below the header."""
    first = next(place for place, line in enumerate(lines) if line.strip())
    if _SEPARATOR_LINE.fullmatch(lines[first].strip()):
        first += 1
    return first + 1 if form.has_header else first


def _quoted_rows(
    lines: Sequence[str], place: int, separator: str
) -> Iterator[tuple[list[str], int]]:
    """Fields of each row from a place on, and the place behind it; csv.Error for a quote that is
    neither around a field nor doubled inside one."""
    following = (f"{line}\n" for line in islice(lines, place, None))
    reader = csv.reader(following, delimiter=separator, skipinitialspace=True, strict=True)
    for row in reader:
        yield row, place + reader.line_num


def _begins_rows(lines: Sequence[str], form: Form) -> bool:
    """Whether one of the lines that a quoted field reaches over looks like a row of its own."""
    for line in lines:
        cells = line.split(form.separator)
        is_closing = sum(cell.count('"') for cell in cells[: form.image + 1]) % 2 == 1
        if len(cells) >= form.width and not is_closing:
            image = cells[form.image].strip().strip('"').lower()
            if image.endswith(IMAGE_ENDINGS):
                return True
    return False


def _unquoted(line: str, form: Form) -> list[str]:
    """The fields of a line whose last field may hold separators and quotes of its own."""
    cells: list[str] = []
    rest = line
    for _ in range(form.width - 1):
        quoted = _QUOTED_FIELD.match(rest)
        if quoted is not None and rest[quoted.end() :].startswith(form.separator):
            cells.append(quoted[1].replace('""', '"'))
            rest = rest[quoted.end() + len(form.separator) :]
            continue
        cell, found, rest = rest.partition(form.separator)
        cells.append(cell)
        if not found:
            return cells
    quoted = _QUOTED_FIELD.fullmatch(rest)
    cells.append(rest if quoted is None else quoted[1].replace('""', '"'))
    return cells


def _fitted(cells: list[str], lines: Sequence[str], form: Form) -> list[str]:
    """The fields of a row, as many as the table has columns where that can be told.

    Args:
        cells: its fields.
        lines: the lines that it stands on; empty where they are taken as they stand.
        form: that of the table.

    Returns:
        The fields. Where a caption that is the last column has separators, it is whole again; empty
        fields at the end are left out or added, as spreadsheets do.
    """
    last = form.width - 1
    if len(cells) > form.width:
        if not any(cells[form.width :]):
            return cells[: form.width]
        if form.captions == (last,) and len(lines) == 1:
            return _unquoted(lines[0], form)
    if len(cells) == last and form.number == last - 1 and form.captions == (last,):
        match = _NUMBER_AND_TEXT.fullmatch(cells[-1].strip())
        if match is not None:
            return [*cells[:-1], match[1], match[2]]
    needed = max(form.image, *form.captions)
    if needed < len(cells) < form.width:
        return cells + [""] * (form.width - len(cells))
    return cells


def _hold_lists(cells: Iterable[str]) -> bool:
    """Whether cells of captions are lists of texts: then all that hold anything are."""
    filled = [cell for cell in cells if cell]
    return bool(filled) and all(map(listed_texts, filled))
