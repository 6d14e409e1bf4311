"""Tables of captions as people have them, read row by row: any separator, columns in any order,
several captions in a line.

table_form.py says what a table is like. Fields are read as RFC 4180 says, so a quoted field may
hold separators and line ends. Captions are often written without quotes around their commas: the
rest of such a line is the caption, where the caption is the last column.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import pandas as pd

from pipeline.corpus.dataset.asked import are_the_same, doubted
from pipeline.corpus.dataset.cells import (
    CAPTION_COLUMNS,
    FEWEST_WORDS,
    NOTHING,
    listed_texts,
    plain_name,
    separator_of_captions,
)
from pipeline.corpus.dataset.counted_rows import Rows, counted_rows, may_tell
from pipeline.corpus.dataset.folder import IMAGE_ENDINGS
from pipeline.corpus.dataset.splits import split_words
from pipeline.corpus.dataset.table_form import (
    LINES_LOOKED_AT,
    LOOKED_AT,
    NUMBER,
    SEPARATOR_LINE,
    USUAL,
    Columns,
    Form,
    find_form,
    separated_rows,
    shape_of,
    table_lines,
    with_line_ends,
)
from pipeline.corpus.params import CorpusConfig
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.text import Problems, read_text

# One line of the published results.csv lacks its second bar: "2199200615.jpg| 4   A dog runs ...".
_NUMBER_AND_TEXT = re.compile(r"(\d{1,9})\s+(\S.*)", re.DOTALL)
# What Flickr8k.token.txt calls a caption: its image, and its number among the image's.
_ID_OF_CAPTION = re.compile(
    rf"^(.+(?:{'|'.join(map(re.escape, IMAGE_ENDINGS))}))#(\d{{1,9}})$", re.IGNORECASE
)
_QUOTED_FIELD = re.compile(r'\s*"((?:[^"]|"")*)"\s*')
_TOTAL = re.compile(
    r"(?:grand |sub)?(?:total|sum|summe|gesamt|count|anzahl|somme|suma)(?: \w+)?\s*[:=]?",
    re.IGNORECASE,
)
_FRACTION = re.compile(r"\d+\.0")
_RULE = re.compile(r"[|:\- ]*--[|:\- ]*")  # below the header of a table in Markdown


def first_images(
    text: str, there: Set[str] = frozenset(), columns: Columns = USUAL
) -> list[str] | None:
    """The images of the first rows of a table.

    Args:
        text: the beginning of a file.
        there: as in `find_form`.
        columns: what the first line calls images and captions.

    Returns:
        Their names as the table has them; None where it is no table.
    """
    form = find_form(text, columns, there)
    if form is None:
        return None
    rows = islice(_rows(text, form), LINES_LOOKED_AT)
    names = (cells[form.image].strip() for _, cells in rows if len(cells) == form.width)
    return [_ID_OF_CAPTION.sub(r"\1", name) for name in names]


def pairs_in(text: str, columns: Columns) -> list[tuple[str, str]]:
    """The images and captions of a table's whole rows, before they are checked.

    Args:
        text: the beginning of a file.
        columns: what the first line calls images and captions.

    Returns:
        Of each row the image and the first caption; empty where the first line names none.
    """
    form = find_form(text, columns)
    if form is None or not form.has_header:
        return []
    whole = (cells for _, cells in _rows(text, form) if len(cells) == form.width)
    return [(cells[form.image].strip(), cells[form.captions[0]].strip()) for cells in whole]


def read_captions(
    path: Path, columns: Columns = USUAL, there: Set[str] = frozenset()
) -> pd.DataFrame:
    """All captions of a table, in the order of the file.

    Args:
        path: a file in UTF-8, or in UTF-16 with its mark.
        columns: what the first line calls images and captions.
        there: as in `find_form`.

    Returns:
        Columns image (as the table names it), text, number (the caption's among those of its
        image, -1 where the table has none) and split (as the table writes it, "" where it has
        none). A cell that holds a list of texts, as pandas writes one, gives a row for each.

    Raises:
        WorkbenchError: the file is no table of captions, or lines cannot be read; they are named.
    """
    return captions_in(*read_cells(path, columns, there))


def read_cells(
    path: Path, columns: Columns = USUAL, there: Set[str] = frozenset()
) -> tuple[pd.DataFrame, Form]:
    """All fields of a table, and its form.

    Args:
        path: a file in UTF-8, or in UTF-16 with its mark.
        columns: what the first line calls images and captions.
        there: as in `find_form`.

    Returns:
        A row for each of the table's and a column for each of its columns, named by their places.
        The form has lines about what is no row (`_without_leftovers`).

    Raises:
        WorkbenchError: as `read_captions`.
    """
    text = read_text(path)
    form = find_form(text, columns, there)
    if form is None:
        first = text.lstrip("\n\r ").partition("\n")[0].strip()
        if first[:1] in ("{", "["):
            ending = "jsonl" if text.count("\n{") else "json"
            raise WorkbenchError(
                f"{path}: JSON, and no table", f"rename it to {path.stem}.{ending}"
            )
        raise WorkbenchError(
            f"{path}, line 1: {first[:60]!r}: neither the names of columns, of which one is an "
            f"image ({listing(columns.images, 4)}) and one a caption "
            f"({listing(columns.captions, 4)}), nor an image's file and a caption",
            "write each line as an image's file, a tab and its caption; or name the columns in a "
            "first line, such as image,caption, or by corpus.image_field and corpus.caption_field",
        )
    if form.doubt:
        raise doubted(str(path), form.doubt)
    cells = _unquoted_cells(text, form)
    if cells is None:
        cells = _any_cells(path, text, form)
    cells, form = _without_leftovers(path, cells, form)
    if form.has_header and columns.captions == CAPTION_COLUMNS and len(form.captions) == 1:
        _check_differ(path, cells, form)
    return cells, form


def _without_leftovers(path: Path, cells: pd.DataFrame, form: Form) -> tuple[pd.DataFrame, Form]:
    """A table without lines that are none of its rows: the names of its columns again, as where
    two files were joined, and a total below the last row; with lines that say so."""
    if not form.has_header:
        return cells, form
    remarks = list(form.remarks)
    if form.above:
        lines = counted(form.above, "line")
        remarks.append(f"left out of {path.name}: {lines} above the names of its columns")
    images = cells[form.image].str.strip()
    first = form.captions[0]
    # the image's cell of most rows is a name of its own, so that few others are looked at
    called = {name for name in images.unique() if plain_name(name) == form.names[form.image]}
    are_names = images.isin(called)
    if called:
        are_names &= cells[first].map(plain_name) == form.names[first]
    if are_names.any() and not are_names.all():
        number = counted(int(are_names.sum()), "line")
        remarks.append(f"left out of {path.name}: {number} with the names of its columns again")
        cells = cells[~are_names].reset_index(drop=True)
    if len(cells) > 1 and _TOTAL.fullmatch(cells[form.image].iloc[-1].strip()):
        text = str(cells[first].iloc[-1]).strip()
        if not any(map(str.isalpha, text)):
            remarks.append(f"left out of {path.name}: its last line, a total ({text or 'empty'})")
            cells = cells.iloc[:-1]
    return cells, replace(form, remarks=tuple(remarks))


def _check_differ(path: Path, cells: pd.DataFrame, form: Form) -> None:
    """Refuse captions that are all the same beside a column of texts that are not: the first are
    what somebody asked of a program, and the others its answers."""
    texts = cells[form.captions[0]].tolist()
    if not are_the_same(texts):
        return
    read = {form.image, form.split, form.number, *form.captions}
    for place in set(range(form.width)) - read:
        others = [text.strip() for text in cells[place].astype(str)]
        words = sum(len(text.split()) for text in others)
        if words >= FEWEST_WORDS * len(others) and 2 * len(set(others)) > len(others):
            raise WorkbenchError(
                f"{path}: all texts in column {form.names[form.captions[0]]} are the same "
                f"({texts[0].strip()[:60]!r}), those in column {form.names[place]} are not",
                "name the column of captions by corpus.caption_field in params.yaml",
            )


def _unquoted_cells(text: str, form: Form) -> pd.DataFrame | None:
    """All fields of a table without a quote, of which each line is a sound row.

    pandas reads these many times faster than `_rows` does, and they are the commonest.

    Returns:
        A column of texts for each of the table's, named by their places; None for other tables.
    """
    if not form.separator or '"' in text:
        return None
    text = with_line_ends(text)
    lines = table_lines(text[:LOOKED_AT])
    start = sum(map(len, lines[: _first_row(lines, form)]))
    below = text[start:].strip("\n")
    number = below.count("\n") + 1
    each = form.width - 1  # separators of a row
    first = below.partition("\n")[0]
    if first.count(form.separator) != each or below.count(form.separator) != number * each:
        return None
    try:
        cells = pd.read_csv(
            io.StringIO(below),
            sep=form.separator,
            header=None,
            names=range(form.width),
            index_col=False,
            dtype={} if form.number is None else {form.number: str},
            na_filter=False,
            quoting=csv.QUOTE_NONE,
            low_memory=False,
        )
    except pd.errors.ParserError:
        return None
    if any(kind != "str" for kind in cells.dtypes):
        return None  # of numbers, whose digits must stay; `dtype=str` takes five times as long
    # The rows have as many separators as they need in all. pandas refuses a row with more than the
    # first one has, so that each has its own.
    is_sound = cells[form.image].str.strip() != ""
    if form.number is not None:
        is_sound &= cells[form.number].str.fullmatch(NUMBER)
    return cells if is_sound.all() else None


def _any_cells(path: Path, text: str, form: Form) -> pd.DataFrame:
    """All fields of a table, likewise; WorkbenchError names lines that cannot be read."""
    # a line of separators alone is empty, as spreadsheets write it below their rows
    rows = [(line, cells) for line, cells in _rows(text, form) if any(map(str.strip, cells))]
    problems = Problems(str(path))
    whole = [(line, cells) for line, cells in rows if len(cells) == form.width]
    faulty = {line for line, cells in rows if len(cells) != form.width}
    faulty |= {line for line, cells in whole if not cells[form.image].strip()}
    if form.number is not None:
        numbered = ((line, cells[form.number]) for line, cells in whole)
        faulty |= {line for line, cell in numbered if not NUMBER.fullmatch(cell)}
    problems.add(f"lines not of the form {form.described}, numbers", sorted(faulty))
    quotes = ", or put quotes around fields that hold a separator" if form.separator else ""
    problems.raise_if_any(f"mend these lines{quotes}")
    return pd.DataFrame([cells for _, cells in rows], columns=range(form.width), dtype=str)


def captions_in(cells: pd.DataFrame, form: Form) -> pd.DataFrame:
    """The captions of a table's fields.

    Args:
        cells: as `read_cells` returns them.
        form: that of the table.

    Returns:
        As `read_captions`.
    """
    table = pd.DataFrame(
        {
            "image": cells[form.image].str.strip(),
            "text": cells[form.captions[0]].str.strip(),
            "number": -1,
            "split": "",
        }
    )
    if form.number is not None and len(form.captions) == 1:
        table["number"] = cells[form.number].astype(int)
    first = table["image"].head(1)  # most tables have no such names, and need no look at all rows
    if form.number is None and first.str.contains("#", regex=False).any():
        ids = table["image"].str.extract(_ID_OF_CAPTION)
        if ids.notna().all(axis=None):
            table["image"] = ids[0]
            table["number"] = ids[1].astype(int)
    if form.split is not None:
        table["split"] = cells[form.split].str.strip()
        table["split"] = table["split"].replace(split_words(table["split"].unique()))
    if len(form.captions) > 1:
        columns = [cells[place].str.strip() for place in form.captions]
        own = [list(texts) for texts in zip(*columns, strict=True)]
        table["text"] = pd.Series(own, dtype=object)
        table = table.explode("text", ignore_index=True)
        table = table[~table["text"].isin({"", *NOTHING})].reset_index(drop=True)
    filled = [cell for cell in table["text"].head(LINES_LOOKED_AT) if cell]
    if filled and all(map(listed_texts, filled)):
        table = _divided(table, [listed_texts(cell) or [cell] for cell in table["text"]])
    name = form.names[form.captions[0]] if form.has_header and form.names else ""
    sign = separator_of_captions(name, filled)
    if sign is not None and sign == separator_of_captions(name, table["text"].tolist()):
        table = _divided(table, [cell.split(sign) for cell in table["text"]])
        table = table[table["text"] != ""].reset_index(drop=True)
    return table


def without_fractions(table: pd.DataFrame, there: Set[str]) -> pd.DataFrame:
    """A table whose images are whole numbers where pandas wrote them as fractions, `100.0`.

    Args:
        table: as `captions_in` returns it.
        there: as in `find_form`.

    Returns:
        The table, its images `100` where all are fractions and no file is called so.
    """
    images = table["image"]
    if not images.head(LINES_LOOKED_AT).str.fullmatch(_FRACTION).all():
        return table
    if not images.str.fullmatch(_FRACTION).all() or any(name in there for name in images):
        return table
    return table.assign(image=images.str.removesuffix(".0"))


def counted_cells(
    place: str,
    tables: Mapping[str, tuple[pd.DataFrame, Form]],
    unread: Mapping[str, Sequence[str]],
    config: CorpusConfig,
) -> tuple[dict[str, tuple[pd.DataFrame, Form]], tuple[str, ...]]:
    """The rows of tables that count (`counted_rows`).

    Args:
        place: of the tables, for messages.
        tables: by file, as `read_cells` returns them.
        unread: by file, the columns that are not read.
        config: corpus.rows and corpus.caption_field.

    Returns:
        The tables without the rows that do not count, those without any left out; and lines for
        the user.

    Raises:
        WorkbenchError: as `counted_rows`.
    """
    files = [as_rows(*own, unread=unread[file], config=config) for file, own in tables.items()]
    counting = counted_rows(place, files, config)
    kept: dict[str, tuple[pd.DataFrame, Form]] = {}
    for (file, (cells, form)), are_kept in zip(tables.items(), counting.kept, strict=True):
        if all(are_kept):
            kept[file] = (cells, form)
        elif any(are_kept):
            kept[file] = (cells[are_kept].reset_index(drop=True), form)
    return kept, counting.remarks


def as_rows(cells: pd.DataFrame, form: Form, unread: Sequence[str], config: CorpusConfig) -> Rows:
    """The rows of a table as `counted_rows` takes them.

    Args:
        cells: as `read_cells` returns them.
        form: that of the table.
        unread: the columns that are not read.
        config: corpus.rows.

    Returns:
        The rows.
    """
    first = form.captions[0]
    return Rows(
        images=cells[form.image].str.strip().tolist(),
        texts=cells[first].tolist(),
        caption=form.names[first] if form.names else "",
        split=form.names[form.split] if form.names and form.split is not None else "",
        cells={
            name: cells[place].tolist()
            for place, name in enumerate(form.names)
            if place == form.split or may_tell(name, config)
        },
        names=form.names,
        unread=unread,
    )


def several_in_cells(file: str, form: Form, rows: int, captions: int) -> tuple[str, ...]:
    """A line about a table whose cells have several captions, none for any other.

    Args:
        file: its name.
        form: that of the table.
        rows: how many it has.
        captions: how many captions it has.

    Returns:
        The line, with both numbers.
    """
    if captions <= rows * len(form.captions):
        return ()
    return (f"several captions in a cell: {rows:,} rows of {file} have {captions:,}",)


def _divided(table: pd.DataFrame, several: Sequence[Sequence[str]]) -> pd.DataFrame:
    """A table with a row for each of several captions of a cell."""
    table = table.assign(text=pd.Series(several, dtype=object), number=-1)
    table = table.explode("text", ignore_index=True)
    table["text"] = table["text"].str.strip()
    return table


def _rows(text: str, form: Form) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table below its header.

    Yields:
        The number of the line in which a row begins, from 1, and its fields: as many as the table
        has columns, or others where that cannot be.
    """
    lines = table_lines(text)
    if not form.separator:
        for number, line in enumerate(lines, 1):
            if line.strip():
                match = form.line.fullmatch(line.rstrip("\n"))
                yield number, [line] if match is None else [*match.groups()]
        return
    first = _first_row(lines, form)
    below = lines[first:]
    begin_rows = partial(_begin_rows, form=form, known=_image_in(below[0], form) if below else "")
    for place, end, row in separated_rows(below, form.separator, begin_rows):
        number = first + place + 1
        if row is None:
            line = below[place]
            cells = _with_backslashes(line, form) or _unquoted(line, form)
            yield number, _fitted(cells, [], form)
        elif len(row) == form.width:
            yield number, row
        elif row:
            yield number, _fitted(row, below[place:end], form)


def _first_row(lines: Sequence[str], form: Form) -> int:
    """The place of the first line below the header."""
    filled = (place for place, line in enumerate(lines) if line.strip())
    first = next(islice(filled, form.above, None))
    if SEPARATOR_LINE.fullmatch(lines[first].strip()):
        first += 1
    if form.has_header:
        first += 1
        if form.separator == "|" and first < len(lines) and _RULE.fullmatch(lines[first].strip()):
            first += 1
    return first


def _begin_rows(lines: Sequence[str], form: Form, known: str) -> bool:
    """Whether lines that a quoted field reaches over look like rows of their own: one has the file
    of an image in its place or, in a table of numbered images, all have a name like a known one."""
    images = [_image_in(line, form) for line in lines]
    if any(image.lower().endswith(IMAGE_ENDINGS) for image in images):
        return True
    is_numbered = any(map(str.isdigit, known))
    return is_numbered and all(shape_of(image) == shape_of(known) for image in images)


def _image_in(line: str, form: Form) -> str:
    """The image of a line that is a row of its own; "" of one that cannot be."""
    cells = line.split(form.separator)
    is_closing = sum(cell.count('"') for cell in cells[: form.image + 1]) % 2 == 1
    if len(cells) < form.width or is_closing:
        return ""
    return cells[form.image].strip().strip('"')


def _with_backslashes(line: str, form: Form) -> list[str]:
    """The fields of a line in which backslashes stand before quotes, as MySQL writes them; empty
    where these are not as many as the table has columns."""
    if '\\"' not in line:
        return []
    reader = csv.reader(
        [line],
        delimiter=form.separator,
        doublequote=False,
        escapechar="\\",
        skipinitialspace=True,
        strict=True,
    )
    with suppress(csv.Error):
        cells = next(reader)
        return cells if len(cells) == form.width else []
    return []


def _unquoted(line: str, form: Form) -> list[str]:
    """The fields of a line whose last field, if it is the caption, may hold separators and quotes
    of its own."""
    cells: list[str] = []
    rest = line.rstrip("\n")
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
    if quoted is not None:
        return [*cells, quoted[1].replace('""', '"')]
    is_caption = form.captions == (form.width - 1,)
    return [*cells, rest] if is_caption else cells + rest.split(form.separator)


def _fitted(cells: list[str], lines: Sequence[str], form: Form) -> list[str]:
    """The fields of a row, as many as the table has columns where that can be told.

    Args:
        cells: its fields.
        lines: the lines that it stands on; empty where a quote is not closed in them.
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
    if lines and needed < len(cells) < form.width:
        return cells + [""] * (form.width - len(cells))
    return cells
