"""What one file says of the splits of images: a list for a split, or a file for all of them.

Known are lists such as `train.txt`, JSON and YAML (split_values.py), lines below `[train]`, CUB's
`train_test_split.txt`, and tables: of images and words for splits, of flags such as `is_test`, with
a column of images for each split, and CelebA's. Lists may leave folders and endings out, and the
zeros before a number. Lines that begin with `#` are comments.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from pipeline.corpus.dataset.cells import ROW_NUMBERS, SPLIT_COLUMNS, first_of, plain_name
from pipeline.corpus.dataset.folder import IMAGE_ENDINGS
from pipeline.corpus.dataset.split_names import (
    NUMBERED_COLUMNS,
    NUMBERS_OF_CELEBA,
    YAML,
    Images,
    Known,
    known_word,
    unsaid,
    word_of,
)
from pipeline.corpus.dataset.split_values import (
    DATA_ENDINGS,
    data_lists_images,
    divided_in_data,
    names_in_data,
)
from pipeline.corpus.dataset.splits import (
    flags_of_splits,
    is_flagged,
    split_named,
    split_without_flag,
)
from pipeline.corpus.dataset.table_form import SEPARATORS, separated_rows, table_lines
from pipeline.runtime.text import decode_beginning, read_text

BYTES_LOOKED_AT = 1 << 16
TABLE_ENDINGS = (".csv", ".tsv")
NUMBERED = re.compile(r"train_test_split\.txt", re.IGNORECASE)
# CelebA's, which says by numbers which images are of training, validation and test.
_PARTITION = re.compile(r".*list_eval_partition\.(txt|csv)", re.IGNORECASE)
_BETWEEN = re.compile(r"""[\n,:;"'\[\]]""")
# What stands before an entry of a list in Markdown: `- 1.jpg`, `- [x] 1.jpg`, `1. 1.jpg`.
_FRACTION = re.compile(r"[-+]?\d*\.\d+(?:e[-+]?\d+)?", re.IGNORECASE)
# What the column of a list may be called whose images are numbers.
_OF_NAMES = re.compile(
    r"im(?:ages?|gs?)|photo|pic|file|name|foto|bild|(?:^|_)(?:ids?|keys?|idx|ind(?:ex|ices)|num(?:ber)?"
    r"|no|nr|row|path|sample|item|train(?:ing)?|val(?:id(?:ation)?)?|dev|test(?:ing)?|unnamed:_0)"
    r"(?:_|$)|^$"
)
_MARK = re.compile(r"(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?")

Rows = Sequence[Sequence[str]]


def beginning_of(path: Path) -> str:
    """The first whole lines of a file, or what its only line has before a comma."""
    with open(path, "rb") as file:
        data = file.read(BYTES_LOOKED_AT)
    text = decode_beginning(data)
    if text is None:  # reading it all says what is wrong with it
        text = data.decode("utf-8", errors="replace")
    if len(data) < BYTES_LOOKED_AT:
        return text
    return text.rpartition("\n")[0] or text.rpartition(",")[0] or text


def lists_images(path: Path, known: Known, few: bool = False) -> bool:
    """Whether a file that is called like a list of images names some that are known.

    Args:
        path: the file.
        known: the images.
        few: as in `Known.are`.

    Returns:
        Whether it does, by its beginning.
    """
    text = beginning_of(path)
    if path.suffix.lower() not in DATA_ENDINGS:
        return known.are(_names_in(path, text, known, few), few)
    if path.suffix.lower() in YAML and not mentions_images(path, known):
        return False  # settings that are called so
    return data_lists_images(path, text, known, few)


def images_in_list(path: Path, known: Known) -> list[str]:
    """The entries of a list: its lines, the column of images of a table, or the names in JSON.

    Args:
        path: the file.
        known: the images.

    Returns:
        The entries, as they are written.
    """
    if path.suffix.lower() in DATA_ENDINGS:
        return names_in_data(path, known)
    return _names_in(path, read_text(path), known)


def images_in_file(path: Path, known: Known) -> Images:
    """The images of each split in JSON or YAML, in CUB's form, or in lines behind words for splits.

    Args:
        path: the file.
        known: the images.

    Returns:
        By split, whether or not there are such images; empty for a file of another form.

    Raises:
        WorkbenchError: several divisions of the same images, such as folds; or images with numbers,
            of which nobody knows what they mean.
    """
    if path.suffix.lower() in DATA_ENDINGS:
        return divided_in_data(path, known)
    return _in_numbers(path) if NUMBERED.fullmatch(path.name) else _in_sections(path, known)


def mentions_images(path: Path, known: Known) -> bool:
    """Whether the first lines of a text have an image that is known, in words of their own.

    Args:
        path: the file.
        known: the images.

    Returns:
        Whether there is one.
    """
    text = beginning_of(path)
    parts = [part.strip("- \t") for part in (*_BETWEEN.split(text), *text.splitlines())]
    return any(word in known for part in parts for word in (part, *part.split()) if word)


def images_in_table(path: Path, known: Known, few: bool = False) -> Images:
    """The images of each split in a table: with a column of images and one of words for splits, one
    of flags such as `is_test`, or several of these; with a column of images for each split; or in
    lines of an image, a blank and a word.

    Args:
        path: the file.
        known: the images.
        few: as in `Known.are`.

    Returns:
        Empty for anything else.

    Raises:
        WorkbenchError: a column of splits with numbers, of which nobody knows what they mean.
    """
    beginning = beginning_of(path)
    for separator in (*SEPARATORS, ""):
        rows = _rows(beginning, separator, known)
        if not rows:
            continue
        columns = _columns(rows, known, few)
        read = None
        if columns.images:
            read = _by_words(columns) or _by_flags(columns) or _by_numbers(path, columns)
        read = read or _by_columns(rows, known, few)
        if read is not None:
            return dict(read(_rows(read_text(path), separator, known)))
    return {}


def flags_in_table(path: Path, known: Known) -> tuple[list[str], list[str]]:
    """The columns of a table that are called like flags of splits, such as `is_test`.

    Args:
        path: the file.
        known: the images.

    Returns:
        The names of those that divide its images, and of those that do not, as `plain_name` has
        them; empty for what is no table of images that are known.
    """
    beginning = beginning_of(path)
    for separator in SEPARATORS:
        rows = _rows(beginning, separator, known)
        columns = _columns(rows, known, few=False)
        if columns.images:
            if _by_words(columns) or _by_columns(rows, known, few=False):
                return [], []
            taken, left = flags_of_splits(dict(zip(columns.names, columns.below, strict=True)))
            return [*taken], left
    return [], []


Read = Callable[[Rows], Images]


class _Columns(NamedTuple):
    """Of a table as far as its shortest row: the cells of each column below the first row, which
    may name the columns, these names, and the places of columns of images, the best first."""

    below: list[tuple[str, ...]]
    names: list[str]
    images: list[int]


def _columns(rows: Rows, known: Known, few: bool) -> _Columns:
    columns = [*zip(*rows, strict=False)]
    below = [cells[1:] for cells in columns]
    names = [plain_name(cells[0]) for cells in columns]
    images = [place for place, cells in enumerate(below) if known.are(cells, few)]
    # of numbers in front of the images each may be the name of another one
    images.sort(key=lambda place: (not _are_files(below[place]), names[place] in ROW_NUMBERS))
    return _Columns(below, names, images)


def _are_files(cells: Sequence[str]) -> bool:
    """Whether most cells end as names of images do."""
    return 2 * sum(cell.lower().endswith(IMAGE_ENDINGS) for cell in cells) > len(cells)


def _by_words(columns: _Columns) -> Read | None:
    """A column of images and one of words for splits."""
    below, names, images = columns
    words = [[known_word(cell) for cell in cells if cell] for cells in below]
    splits = [
        place
        for place, own in enumerate(words)
        if any(own) and (all(own) or names[place] in SPLIT_COLUMNS)
    ]
    named = first_of([names[place] for place in splits], SPLIT_COLUMNS)
    if named is not None:
        splits = [names.index(named)]
    if len(splits) != 1:
        return None
    image = images[0]
    split = splits[0]

    def read(rows: Rows) -> Images:
        has_header = rows[0][split] != "" and known_word(rows[0][split]) == ""
        found: Images = defaultdict(list)
        for row in rows[1:] if has_header else rows:
            if len(row) > max(image, split) and row[split]:
                found[word_of(row[split])].append(row[image])
        return found

    return read


def _by_columns(rows: Rows, known: Known, few: bool) -> Read | None:
    """A column of images for each split, under its word."""
    splits = {place: split_named(name) for place, name in enumerate(rows[0]) if name}
    cells = [row[place] for row in rows[1:] for place in splits if place < len(row) and row[place]]
    if len(splits) < 2 or None in splits.values() or not known.are(cells, few):
        return None

    def read(rows: Rows) -> Images:
        found: Images = defaultdict(list)
        for row in rows[1:]:
            for place, split in splits.items():
                if place < len(row) and row[place]:
                    found[split or ""].append(row[place])
        return found

    return read


def _by_flags(columns: _Columns) -> Read | None:
    """A column of images, and columns such as `is_test` of which each says of one split, whether an
    image is in it."""
    below, names, images = columns
    called, _ = flags_of_splits(dict(zip(names, below, strict=True)))
    flags = {names.index(name): split for name, split in called.items()}
    if not flags:
        return None
    rest = split_without_flag(flags.values())

    def read(rows: Rows) -> Images:
        found: Images = defaultdict(list)
        for row in rows[1:]:
            if len(row) < len(rows[0]):
                continue
            own = [split for place, split in flags.items() if is_flagged(row[place])]
            for split in own or ([rest] if rest else []):
                found[split].append(row[images[0]])
        return found

    return read


def _by_numbers(path: Path, columns: _Columns) -> Read | None:
    """CelebA's numbers; WorkbenchError for others in a column called split or partition."""
    below, names, images = columns
    numbers = [
        place
        for place, cells in enumerate(below)
        if place not in images[:1] and len(set(cells)) > 1 and set(cells) <= {*NUMBERS_OF_CELEBA}
    ]
    if not numbers:
        return None
    if _PARTITION.fullmatch(path.name):

        def read(rows: Rows) -> Images:
            found: Images = defaultdict(list)
            for row in rows:
                split = NUMBERS_OF_CELEBA.get(row[-1]) if len(row) == len(rows[0]) else None
                if split is not None:
                    found[split].append(row[images[0]])
            return found

        return read
    called = [names[place] for place in numbers if names[place] in NUMBERED_COLUMNS]
    if called:
        raise unsaid(f"{path}: column {called[0]} has numbers")
    return None


def _rows(text: str, separator: str, known: Known) -> list[list[str]]:
    """The rows of a table that are not blank; without a separator, a line's last word stands apart.
    A line with a quote that is not closed in its row is a row if it has as many fields."""
    if separator == "":
        lines = [line for line in text.splitlines() if line.strip()]
        pairs = [line.rsplit(None, 1) for line in lines]
        return [pair for pair in pairs if not known.is_comment(pair[0])]
    lines = table_lines(text)
    lines = [line for line in lines if not known.is_comment(line.partition(separator)[0])]

    def begin_rows(lines: Sequence[str]) -> bool:
        return any(_is_row(line, separator, known) for line in lines)

    rows: list[list[str]] = []
    for place, _, fields in separated_rows(lines, separator, begin_rows):
        cells = lines[place].split(separator) if fields is None else fields
        row = [cell.strip() for cell in cells]
        if fields is None:
            row = [cell.strip('"') for cell in row]
            if rows and len(row) != len(rows[0]):
                continue
        if any(row):
            rows.append(row)
    return rows


def _is_row(line: str, separator: str, known: Known) -> bool:
    """Whether a line that a quoted field reaches over is a row of its own, for it has an image."""
    quotes = 0
    for cell in line.split(separator):
        quotes += cell.count('"')
        if quotes % 2 == 0 and cell.strip().strip('"') in known:
            return True
    return False


def _names_in(path: Path, text: str, known: Known, few: bool = False) -> list[str]:
    """The entries of a list: its lines, with or without the marks of Markdown; all cells of its
    lines; or, of a table, its column of images. Its lines, too, where nothing of this is known."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not known.is_comment(line)]
    if known.are(lines, few) and path.suffix.lower() not in TABLE_ENDINGS:
        return lines
    marked = [_MARK.sub("", line, count=1).strip("\"'`") for line in lines if _MARK.match(line)]
    if known.are(marked, few):
        return marked
    for separator in SEPARATORS:
        rows = _rows(text, separator, known)
        names = _names_in_all_cells(rows, known, few) or _names_in_column(rows, known, few)
        if names:
            return names
    words = lines[0].split() if len(lines) == 1 else []
    if known.are(words, few):
        return words
    but_last = [line.rsplit(None, 1)[0] for line in lines]  # before a number or a word for a class
    first = [line.split(None, 1)[0] for line in lines]  # before several
    last = [line.rsplit(None, 1)[-1] for line in lines]
    found = (names for names in (but_last, first) if known.are(names, few))
    return next((names for names in found if not _are_measured(names, last)), lines)


def _are_measured(names: Sequence[str], values: Sequence[str]) -> bool:
    """Whether names are numbers beside others with a fraction: epochs and their losses."""
    are_numbers = 2 * sum(map(str.isdecimal, names)) > len(names)
    return are_numbers and 2 * sum(map(_is_fraction, values)) > len(values)


def _is_fraction(value: str) -> bool:
    return _FRACTION.fullmatch(value) is not None


def _may_name(header: str, cells: Sequence[str]) -> bool:
    """Whether a column of images may be called so: numbers below `epoch` are names of none."""
    return not all(map(str.isdecimal, cells)) or _OF_NAMES.search(plain_name(header)) is not None


def _names_in_all_cells(rows: Rows, known: Known, few: bool) -> list[str]:
    """The cells of rows that are nothing but names of images, without those that have no ending of
    images where others have one; empty for any other table."""
    rows = [[cell if cell in known else cell.strip("'\"[] ") for cell in row] for row in rows]
    header = rows[0] if rows and not any(cell in known for cell in rows[0]) else []
    rows = rows[1:] if header else rows
    cells = [cell for row in rows for cell in row if cell]
    if not known.are(cells, few) or not all(_may_name(name, cells) for name in header):
        return []
    files = [cell for cell in cells if cell.lower().endswith(IMAGE_ENDINGS)]
    if known.are(files, few):
        return files
    columns = ([*filter(None, column)] for column in zip_longest(*rows, fillvalue=""))
    are_names = len(rows) == 1 or all(known.are(column, few) for column in columns)
    return cells if are_names else []


def _names_in_column(rows: Rows, known: Known, few: bool) -> list[str]:
    """The column of a table that has names of images, the one of files before others; empty where
    none has."""
    columns = [
        cells
        for cells in zip(*rows, strict=False)
        if known.are(cells, few) or known.are(cells[1:], few)
    ]
    if not columns:
        return []
    best = min(columns, key=lambda own: (not _are_files(own), plain_name(own[0]) in ROW_NUMBERS))
    if best[0] in known:
        is_measured = any(_are_measured(best, cells) for cells in zip(*rows, strict=False))
        return [] if is_measured else [*best]
    return [*best[1:]] if _may_name(best[0], best[1:]) else []


def _in_numbers(path: Path) -> Images:
    """The images of each split in CUB's form: lines of an image's number and 1 for training or 0
    for test; lines of a number and a name are in images.txt beside it."""
    names_in = path.with_name("images.txt")
    if not names_in.is_file():
        return {}
    pairs = (line.strip().partition(" ") for line in read_text(names_in).split("\n"))
    names = {number: name.strip() for number, _, name in pairs}
    images: Images = defaultdict(list)
    for line in read_text(path).split("\n"):
        number, _, flag = line.strip().partition(" ")
        if number in names and flag in ("0", "1"):
            images["train" if flag == "1" else "test"].append(names[number])
    return dict(images)


def _in_sections(path: Path, known: Known) -> Images:
    """The images of each split in lines below a word for it, such as `[train]`, or behind it, as in
    `train: 1.jpg 2.jpg`."""
    images: Images = defaultdict(list)
    split = None
    for line in filter(None, map(str.strip, read_text(path).splitlines())):
        word, colon, names = line.partition(":")
        named = split_named(word.strip("[]#=- "))
        if named is not None and colon and names.strip():
            images[named] += names.replace(",", " ").split()
        elif named is not None:
            split = named
        elif split is not None and not known.is_comment(line):
            images[split].append(line)
    return dict(images)
