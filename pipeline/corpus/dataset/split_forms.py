"""What one file says of the splits of images: a list for a split, or a file for all of them.

Known are lists such as `train.txt`, JSON or YAML such as `splits.json`, lines below `[train]`,
CUB's `train_test_split.txt`, and tables: of images and words for splits, of flags such as
`is_test`, with a column of images for each split, and CelebA's. Lists may leave folders and endings
out, and the zeros before a number.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from pipeline.corpus.dataset.cells import IMAGE_COLUMNS, SPLIT_COLUMNS, first_of, plain_name
from pipeline.corpus.dataset.folder import IMAGE_ENDINGS, with_slashes, without_ending
from pipeline.corpus.dataset.splits import (
    SPLIT_WORDS_OF,
    is_rest,
    split_field,
    split_named,
    split_of_flag,
    splits_in_path,
)
from pipeline.corpus.dataset.table_form import SEPARATORS, separated_rows, table_lines
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import decode_beginning, read_json, read_text
from pipeline.runtime.yaml_text import plain_yaml

BYTES_LOOKED_AT = 1 << 16
LARGEST_YAML = 1 << 22  # bytes; a larger one takes long to read
LIST_ENDINGS = (".txt", ".lst", ".list", ".csv", ".tsv", ".json")
NUMBERED = re.compile(r"train_test_split\.txt", re.IGNORECASE)
# CelebA's, which says by numbers which images are of training, validation and test.
_PARTITION = re.compile(r".*list_eval_partition\.(txt|csv)", re.IGNORECASE)
_NUMBERS_OF_CELEBA = {"0": "train", "1": "val", "2": "test"}
# What lists are called beside the word for a split: train_images.txt, trainlist01.txt.
_WHAT = (
    "images?|imgs?|photos?|pictures?|files?|filenames?|names?|ids?|keys?|lists?|sets?|splits?|"
    "index|indices|data|samples?"
)
_LISTS = {
    split: re.compile(
        rf"(.*[^a-z])?({_WHAT})*({'|'.join(words)})([^a-z]*({_WHAT}))*[^a-z]*", re.DOTALL
    )
    for split, words in SPLIT_WORDS_OF.items()
}
_BETWEEN = re.compile(r"""[\n,:;"'\[\]]""")
_TRUE = frozenset({"true", "yes", "1", "1.0", "t", "y"})
_FALSE = frozenset({"false", "no", "0", "0.0", "f", "n", ""})

Rows = Sequence[Sequence[str]]
Images = dict[str, list[str]]  # by split


class Known:
    """The names of images that are known, as lists may write them."""

    def __init__(self, names: Iterable[str]) -> None:
        self._stems = frozenset(map(list_stem, names))
        self._numbers = frozenset(map(without_zeros, self._stems))

    def __contains__(self, entry: str) -> bool:
        stem = list_stem(entry)
        return stem in self._stems or (stem.isdecimal() and without_zeros(stem) in self._numbers)

    def are_in(self, images: Mapping[str, Collection[str]]) -> bool:
        """Whether most images of all splits are known."""
        return self.are([name for own in images.values() for name in own])

    def are(self, entries: Collection[str], few: bool = False) -> bool:
        """Whether most entries of a list name images that are known.

        Args:
            entries: of the list, with or without their endings.
            few: whether all have endings of images, and fewer than half, but some, are known.

        Returns:
            Whether they do.
        """
        number = sum(entry in self for entry in entries)
        if few:
            are_files = all(entry.lower().endswith(IMAGE_ENDINGS) for entry in entries)
            return number > 0 and number * 2 <= len(entries) and are_files
        return number * 2 > len(entries)


def list_stem(name: str) -> str:
    """The last part of an image's name without its ending, in lower case, its blanks not as an
    address of the web has them."""
    return without_ending(unquote(with_slashes(name).rpartition("/")[2]))


def without_zeros(stem: str) -> str:
    """A number without the zeros before it; any other name as it is."""
    return (stem.lstrip("0") or "0") if stem.isdecimal() else stem


def split_of_list(name: str) -> str | None:
    """The split whose images a list has by its own name, such as `train_images.txt`.

    Args:
        name: of a file without its folder, or a key of JSON.

    Returns:
        The split; None for a name that says none, or several, such as `train_val.txt`.
    """
    stem = name.lower()
    ending = next((own for own in LIST_ENDINGS if stem.endswith(own)), "")
    stem = stem.removesuffix(ending)
    if not ending and "." in stem:
        return None
    found = [split for split, pattern in _LISTS.items() if pattern.fullmatch(stem)]
    return found[0] if len(found) == 1 and len(splits_in_path(stem)) < 2 else None


def beginning_of(path: Path) -> str:
    """The first whole lines of a file."""
    with open(path, "rb") as file:
        data = file.read(BYTES_LOOKED_AT)
    text = decode_beginning(data)
    if text is None:  # reading it all says what is wrong with it
        text = data.decode("utf-8", errors="replace")
    return text if len(data) < BYTES_LOOKED_AT else text.rpartition("\n")[0] or text


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
    if path.suffix.lower() == ".json":
        return known.are([*_names(_first_entries(text))], few)
    return known.are(_names_in(path, text, known, few), few)


def images_in_list(path: Path, known: Known) -> list[str]:
    """The entries of a list: its lines, the column of images of a table, or the names in JSON.

    Args:
        path: the file.
        known: the images.

    Returns:
        The entries, as they are written.
    """
    if path.suffix.lower() == ".json":
        return [*_names(read_json(path))]
    return _names_in(path, read_text(path), known)


def images_in_file(path: Path) -> Images:
    """The images of each split in JSON or YAML, in CUB's form, or in lines behind words for splits.

    Args:
        path: the file.

    Returns:
        By split, whether or not there are such images; empty for a file of another form.
    """
    ending = path.suffix.lower()
    if ending == ".jsonl":
        return _in_value(_json_lines(path))
    if ending == ".json":
        return _in_value(read_json(path))
    if ending in (".yaml", ".yml"):
        if path.stat().st_size > LARGEST_YAML:
            return {}
        return _in_value(plain_yaml(read_text(path), str(path), "mend it, or move it away"))
    return _in_numbers(path) if NUMBERED.fullmatch(path.name) else _in_sections(read_text(path))


def mentions_images(path: Path, known: Known) -> bool:
    """Whether the first lines of a text have an image that is known, in words of their own.

    Args:
        path: the file.
        known: the images.

    Returns:
        Whether there is one.
    """
    parts = [part.strip("- \t") for part in _BETWEEN.split(beginning_of(path))]
    return any(word in known for part in parts for word in (part, *part.split()) if word)


def is_of_image(record: Mapping[str, object], known: Known) -> bool:
    """Whether a record of JSON says the split of an image that is known.

    Args:
        record: with any fields.
        known: the images.

    Returns:
        Whether it has both, the split in any word.
    """
    name, word = _image_and_split(record)
    return word != "" and name in known


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


Read = Callable[[Rows], Images]


class _Columns(NamedTuple):
    """Of a table as far as its shortest row: the cells of each column below the first row, which
    may name the columns, these names, and the places of columns of images."""

    below: list[tuple[str, ...]]
    names: list[str]
    images: list[int]


def _columns(rows: Rows, known: Known, few: bool) -> _Columns:
    columns = [*zip(*rows, strict=False)]
    below = [cells[1:] for cells in columns]
    names = [plain_name(cells[0]) for cells in columns]
    images = [place for place, cells in enumerate(below) if known.are(cells, few)]
    return _Columns(below, names, images)


def _by_words(columns: _Columns) -> Read | None:
    """A column of images and one of words for splits."""
    below, names, images = columns
    words = [[_known_word(cell) for cell in cells if cell] for cells in below]
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
        has_header = rows[0][split] != "" and _known_word(rows[0][split]) == ""
        found: Images = defaultdict(list)
        for row in rows[1:] if has_header else rows:
            if len(row) > max(image, split) and row[split]:
                found[_word(row[split])].append(row[image])
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
    image is in it. An image in none is for training; if that has a column, too, it is for test
    where no other split has one, else in no split."""
    below, names, images = columns
    flags: dict[int, str] = {}
    for place, name in enumerate(names):
        split = split_of_flag(name)
        cells = {cell.lower() for cell in below[place]}
        if split and cells <= _TRUE | _FALSE and cells & _TRUE and cells & _FALSE:
            flags[place] = split
    if not flags or len(set(flags.values())) < len(flags):
        return None
    rest = "train"
    if "train" in flags.values():
        rest = "test" if len(flags) == 1 else ""

    def read(rows: Rows) -> Images:
        found: Images = defaultdict(list)
        for row in rows[1:]:
            if len(row) < len(rows[0]):
                continue
            own = [split for place, split in flags.items() if row[place].lower() in _TRUE]
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
        if place not in images[:1] and len(set(cells)) > 1 and set(cells) <= {*_NUMBERS_OF_CELEBA}
    ]
    if not numbers:
        return None
    if _PARTITION.fullmatch(path.name):

        def read(rows: Rows) -> Images:
            found: Images = defaultdict(list)
            for row in rows:
                split = _NUMBERS_OF_CELEBA.get(row[-1]) if len(row) == len(rows[0]) else None
                if split is not None:
                    found[split].append(row[images[0]])
            return found

        return read
    called = [names[place] for place in numbers if names[place] in ("split", "partition")]
    if called:
        raise WorkbenchError(
            f"{path}: column {called[0]} has numbers, and which are for training is not said",
            "write train, val and test; or name other lists by corpus.split_files in params.yaml",
        )
    return None


def _rows(text: str, separator: str, known: Known) -> list[list[str]]:
    """The rows of a table that are not blank; without a separator, a line's last word stands apart.
    A line with a quote that is not closed in its row is a row if it has as many fields."""
    if separator == "":
        return [line.rsplit(None, 1) for line in text.splitlines() if line.strip()]
    lines = table_lines(text)

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
    """The entries of a list: its lines or, in a table, its column of images."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for separator in SEPARATORS if path.suffix.lower() in (".csv", ".tsv") else ():
        rows = _rows(text, separator, known)
        for cells in zip(*rows, strict=False):
            if known.are(cells, few) or known.are(cells[1:], few):
                return [*cells] if cells[0] in known else [*cells[1:]]
    return lines


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


def _in_sections(text: str) -> Images:
    """The images of each split in lines below a word for it, such as `[train]`, or behind it, as in
    `train: 1.jpg 2.jpg`."""
    images: Images = defaultdict(list)
    split = None
    for line in filter(None, map(str.strip, text.splitlines())):
        word, colon, names = line.partition(":")
        named = split_named(word.strip("[]#=- "))
        if named is not None and colon and names.strip():
            images[named] += names.replace(",", " ").split()
        elif named is not None:
            split = named
        elif split is not None:
            images[split].append(line)
    return dict(images)


def _in_value(value: Any, is_inside: bool = False) -> Images:
    """The images of each split in a value such as {"train": ["1.jpg", ...], "test": [...]}, in one
    that maps images to splits, in records of an image and its split, or in any of these under a
    key; empty for anything else."""
    images: Images = defaultdict(list)
    for key, own in value.items() if isinstance(value, dict) else ():
        split = split_of_list(key)
        if split is not None and isinstance(own, list):
            images[split] += _names(own)
        elif isinstance(own, str) and (split_named(own) is not None or is_rest(own)):
            images[_word(own)].append(key)
    for record in value if isinstance(value, list) else ():
        name, word = _image_and_split(record) if isinstance(record, dict) else ("", "")
        if name and word:
            images[_word(word)].append(name)
    if not images and isinstance(value, dict) and not is_inside:
        inside = (_in_value(own, is_inside=True) for own in value.values())
        return next(filter(None, inside), {})
    return dict(images)


def _names(value: object) -> Iterator[str]:
    """The names of images in a list of JSON, which has texts, numbers or records."""
    for entry in value if isinstance(value, list) else ():
        name = entry
        if isinstance(entry, dict):
            name = entry.get(first_of(entry, IMAGE_COLUMNS) or "")
        if isinstance(name, str | int) and not isinstance(name, bool):
            yield str(name)


def _first_entries(text: str) -> list[object]:
    """The first values of a list in JSON, from its beginning."""
    if not text.lstrip().startswith("["):
        return []
    decoder = json.JSONDecoder()
    entries: list[object] = []
    place = text.index("[") + 1
    while True:
        while text[place : place + 1] in (" ", "\t", "\r", "\n", ","):
            place += 1
        try:
            entry, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            return entries
        entries.append(entry)


def _json_lines(path: Path) -> list[Any]:
    """The values of a file that has one on each line."""
    values = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        try:
            values += [json.loads(line)] if line.strip() else []
        except (ValueError, RecursionError):
            raise WorkbenchError(f"{path}, line {number}: no JSON: {line[:60]!r}") from None
    return values


def _image_and_split(record: Mapping[str, object]) -> tuple[str, str]:
    """The image of a record and its word for a split, "" for what it lacks."""
    name = record.get(first_of(record, IMAGE_COLUMNS) or "")
    word = record.get(split_field(record) or "")
    return name if isinstance(name, str) else "", word if isinstance(word, str) else ""


def _known_word(cell: str) -> str:
    """The split that a cell names, or Karpathy's fourth; "" for any other cell."""
    return _word(cell) if split_named(cell) is not None or is_rest(cell) else ""


def _word(cell: str) -> str:
    """A cell that says a split: train, val or test where it means that, else its own word."""
    return split_named(cell) or cell.strip()
