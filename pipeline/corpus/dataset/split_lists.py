"""Files that say the splits of images: a list for each split, or one file for all.

Known are lists such as `train.txt`, JSON such as `splits.json`, tables with a column of images and
one of words for splits, and CUB's `train_test_split.txt`. Lists may leave folders and endings out.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from pipeline.corpus.dataset.cells import IMAGE_COLUMNS, SPLIT_COLUMNS, first_of, plain_name
from pipeline.corpus.dataset.folder import (
    IMAGE_ENDINGS,
    Folder,
    depth,
    joined,
    with_slashes,
    without_ending,
)
from pipeline.corpus.dataset.recognise import first_records
from pipeline.corpus.dataset.source import Options, find_in_raw
from pipeline.corpus.dataset.splits import (
    SPLIT_WORDS_OF,
    check_other_splits,
    is_rest,
    split_field,
    split_named,
    split_or_rest,
)
from pipeline.corpus.dataset.table_form import SEPARATORS, separated_rows, table_lines
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.text import Problems, decode_beginning, read_json, read_text

MOST_TABLES = 100  # of a folder; more are texts beside images
BYTES_LOOKED_AT = 1 << 16
_ENDINGS = (".txt", ".lst", ".csv", ".tsv", ".json", ".jsonl")
_TABLES = re.compile(r".*\.(csv|tsv|txt)", re.IGNORECASE)
_JSON = re.compile(r"(.*[._-])?splits?([._-].*)?\.jsonl?", re.IGNORECASE)
_RECORDS = re.compile(r".*\.jsonl?", re.IGNORECASE)
_NUMBERED = re.compile(r"train_test_split\.txt", re.IGNORECASE)
_LISTS = {
    split: re.compile(
        rf"(.*[._-])?({'|'.join(words)})(images|_?split)?\.(txt|lst|csv|tsv)", re.IGNORECASE
    )
    for split, words in SPLIT_WORDS_OF.items()
}


class SplitLists(NamedTuple):
    """Files that divide images. images: by split, in the words of the files."""

    files: Sequence[Path]
    images: Mapping[str, Sequence[str]]

    def __str__(self) -> str:
        return ", ".join(path.name for path in self.files)


def with_split_lists(
    folder: Folder, beside: str, splits: Mapping[str, str | None], options: Options
) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """The splits of images where lists divide them: those that corpus.split_files names, else,
    where annotations divide nothing, those of the user's folder.

    Args:
        folder: the files of the user's folder.
        beside: the folder inside it that has the annotations; lists that lie there come first, then
            those further up, then any others.
        splits: for every image, as annotations name it, its split, or None.
        options: corpus.split_files, corpus.restval.

    Returns:
        The splits, in the order of `splits`, then images that only named lists have; None for an
        image in no list. Without a list for training its images are all others. And lines about
        lists that were found, and about images of other splits.

    Raises:
        WorkbenchError: lists that are not there, several of one split, or an image in two.
    """
    named = options.corpus.split_files
    lists = None
    if named is not None:
        path = find_in_raw(folder.root, named, "corpus.split_files")
        lists = named_split_lists(path, splits)
    elif len(set(splits.values())) < 2:
        lists = _found_in(folder, beside, splits)
    if lists is None:
        return dict(splits), ()
    words = listed_splits(lists, list(splits))
    others = check_other_splits(Counter(words.values()), str(lists))
    listed = {image: split_or_rest(word, options.corpus.restval) for image, word in words.items()}
    divided = {image: listed.get(image) for image in splits}
    has_train = "train" in divided.values()
    if not has_train:
        divided = {image: split or "train" for image, split in divided.items()}
    if named is not None:
        return divided | listed, others
    if len(set(divided.values())) < 2:
        return dict(splits), ()
    rest = "" if has_train else "; images that they lack are for training"
    foreign = len(listed.keys() - divided.keys())
    without = (f"of the images of the lists {foreign:,} have no captions",) if foreign else ()
    return divided, (f"splits: of the lists {lists}{rest}", *without, *others)


def _found_in(folder: Folder, beside: str, splits: Mapping[str, str | None]) -> SplitLists | None:
    """The lists of a folder that divide images: the nearest, or the only ones."""
    places = sorted(_texts_in(folder), key=lambda place: (place != beside, depth(place), place))
    known = frozenset(map(_stem, splits))
    found = []
    for place in places:
        lists = _find_lists(folder, place, known) or _find_table(folder, place, known)
        if lists is not None:
            if place in ("", beside):
                return lists
            found.append(lists)
        else:
            _check_no_part(folder, place, known)
    if len(found) > 1:
        shown = listing(lists.files[0].relative_to(folder.root) for lists in found)
        raise WorkbenchError(
            f"{folder.root}: several folders have lists of splits: {shown}",
            "name one of these folders by corpus.split_files in params.yaml",
        )
    return next(iter(found), None)


def _check_no_part(folder: Folder, place: str, known: Set[str]) -> None:
    """Raise WorkbenchError for lists of which few entries are images that are known: they may be
    those of more images than have captions, or of other ones."""
    called = _matching(folder, place, *_LISTS.values())
    tables = _matching(folder, place, _TABLES)
    lists = [path for path in called if _lists_images(path, known, few=True)]
    if len(tables) <= MOST_TABLES:
        lists += [path for path in tables if len(_in_table(path, known, few=True)) > 1]
    if lists:
        raise WorkbenchError(
            f"{lists[0]}: of the first images that it lists, fewer than half have captions",
            "if it divides these images, name it, or its folder, by corpus.split_files in "
            "params.yaml; else move it away",
        )


def find_split_lists(folder: Folder, place: str, names: Collection[str]) -> SplitLists | None:
    """The lists of a folder that divide its images, such as `Flickr_8k.trainImages.txt`.

    Args:
        folder: the files of the user's folder.
        place: the folder inside it that the lists lie in.
        names: the images; a file that is called like a list and names none of them is none.

    Returns:
        The only list of each split or, without one for training, a file for all splits: JSON such
        as splits.json, or CUB's train_test_split.txt; else the lists that there are. None for none.

    Raises:
        WorkbenchError: several lists of one split.
    """
    return _find_lists(folder, place, frozenset(map(_stem, names)))


def _find_lists(folder: Folder, place: str, known: Set[str]) -> SplitLists | None:
    """The lists of a folder that divide images. known: these, as `_stem` has them."""
    by_split: dict[str, Path] = {}
    for split, pattern in _LISTS.items():
        paths = [path for path in _matching(folder, place, pattern) if _lists_images(path, known)]
        plain = [path for path in paths if path.stem.lower() in SPLIT_WORDS_OF[split]]
        chosen = plain if len(plain) == 1 else paths
        if len(chosen) > 1:
            raise WorkbenchError(
                f"{folder.root / place}: several lists of {split} images: "
                f"{listing(path.name for path in paths)}",
                "move those that are meant into a folder of their own, and name it by "
                "corpus.split_files in params.yaml",
            )
        if chosen:
            by_split[split] = chosen[0]
    for path in () if "train" in by_split else _matching(folder, place, _JSON, _NUMBERED):
        images = _in_one_file(path, known)
        if _are_images([name for own in images.values() for name in own], known):
            return SplitLists([path], images)
    return _read_lists(by_split, known) if by_split else None


def _find_table(folder: Folder, place: str, known: Set[str]) -> SplitLists | None:
    """The table of a folder that divides its images, with a column of them and one of splits."""
    paths = _matching(folder, place, _TABLES, _RECORDS)
    found: list[SplitLists] = []
    for path in paths if len(paths) <= MOST_TABLES else ():
        if not _RECORDS.fullmatch(path.name):
            images = _in_table(path, known)
        elif _is_of_image(first_records(folder, joined(place, path.name)).get("", {}), known):
            images = _in_json(path)
        else:
            continue
        if len(images) > 1:
            found.append(SplitLists([path], images))
    if any(lists.images != found[0].images for lists in found[1:]):
        raise WorkbenchError(
            f"{folder.root / place}: several tables with splits of the images: "
            f"{listing(str(lists) for lists in found)}",
            "name the right one by corpus.split_files in params.yaml, or move the others away",
        )
    return next(iter(found), None)


def named_split_lists(
    path: Path, names: Collection[str], required: Collection[str] = ("train", "test")
) -> SplitLists:
    """The lists that somebody has named.

    Args:
        path: a folder with lists such as `train.txt`, `val.txt` (or dev) and `test.txt`, or a file
            for all splits.
        names: the images.
        required: the splits that must have a list in a folder. Without one for val, val is drawn
            from train.

    Returns:
        The lists.

    Raises:
        WorkbenchError: no list for a required split, or several for one; a file that says no
            splits.
    """
    known = frozenset(map(_stem, names))
    if path.is_file():
        images = _in_one_file(path, known) or _in_table(path, known)
        if not images:
            raise WorkbenchError(
                f"{path}: no splits of images; looked for a table with a column of images and one "
                'of train, val and test, or JSON such as {"train": ["1.jpg"], "test": ["2.jpg"]}',
                "name such a file, or a folder with train.txt, val.txt and test.txt",
            )
        return SplitLists([path], images)
    folder = Folder(path, {"": frozenset(own.name for own in path.iterdir())})
    lists: dict[str, Path] = {}
    for split, pattern in _LISTS.items():
        own = _matching(folder, "", pattern)
        if len(own) == 1:
            lists[split] = own[0]
        elif own or split in required:
            found = ", ".join(path.name for path in own) or "none"
            example = f"Flickr_8k.{'dev' if split == 'val' else split}Images.txt"
            raise WorkbenchError(
                f"{path}: expected one list of {split} images, such as {split}.txt or {example}; "
                f"found {found}",
                "the folder has one list for each of train, val and test",
            )
    return _read_lists(lists, known)


def is_called_list(name: str) -> bool:
    """Whether a file is called as a list of a split's images, such as `train.txt`.

    Args:
        name: of a file, without its folder.
    """
    return any(pattern.fullmatch(name) for pattern in _LISTS.values())


def listed_splits(lists: SplitLists, names: Sequence[str]) -> dict[str, str]:
    """The split of each image that lists name; lists may leave endings and folders out.

    Args:
        lists: files that divide images.
        names: the images.

    Returns:
        A split, in the word of the lists, for every entry of them: for the image that it means, or
        under its own text where it means none.

    Raises:
        WorkbenchError: an image in two splits, or an entry that could be several images.
    """
    known = set(names)
    tails = Counter(tail for name in names for tail in _tails(name))
    images = {tail: name for name in names for tail in _tails(name) if tails[tail] == 1}
    splits: dict[str, str] = {}
    twice: list[str] = []
    several: list[str] = []
    for split, entries in lists.images.items():
        for line in dict.fromkeys(entries):
            entry = line.strip()
            meant = (images[tail] for tail in _tails(entry) if tail in images)
            image = entry if entry in known else next(meant, entry)
            if image not in known and tails[_stem(entry)] > 1:
                several.append(entry)
            if image in splits and splits[image] != split:
                twice.append(image)
            if image:
                splits[image] = split
    problems = Problems(str(lists.files[0].parent))
    problems.add("images in more than one list", dict.fromkeys(twice))
    problems.add("entries that could be several images", dict.fromkeys(several))
    problems.raise_if_any(
        "an image that is trained on must not be tested on: mend the lists, and name images of one "
        "name with their folders"
    )
    return splits


@lru_cache(maxsize=16)
def _texts_in(folder: Folder) -> dict[str, list[str]]:
    """The names of files that may be lists, in the order of their names, by the folder that they
    lie in: folders of images alone are many."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in folder.others:
        place, _, name = file.rpartition("/")
        if name.lower().endswith(_ENDINGS):
            found[place].append(name)
    return dict(found)


def _matching(folder: Folder, place: str, *patterns: re.Pattern[str]) -> list[Path]:
    """The files of a folder whose whole names match one of some patterns, those of the first
    pattern first, each in the order of their names."""
    names = _texts_in(folder).get(place, ())
    found = [name for pattern in patterns for name in names if pattern.fullmatch(name)]
    paths = [folder.root / place / name for name in dict.fromkeys(found)]
    return [path for path in paths if path.is_file()]


def _beginning(path: Path) -> str:
    """The first whole lines of a file."""
    with open(path, "rb") as file:
        data = file.read(BYTES_LOOKED_AT)
    text = decode_beginning(data)
    if text is None:  # reading it all says what is wrong with it
        text = data.decode("utf-8", errors="replace")
    return text if len(data) < BYTES_LOOKED_AT else text.rpartition("\n")[0]


def _lists_images(path: Path, known: Set[str], few: bool = False) -> bool:
    """Whether a file that is called like a list of images names some that are known."""
    return _are_images(_names_in(path, _beginning(path), known, few), known, few)


def _read_lists(lists: Mapping[str, Path], known: Set[str]) -> SplitLists:
    """A list for each split."""
    images = {split: _names_in(path, read_text(path), known) for split, path in lists.items()}
    return SplitLists(list(lists.values()), images)


def _names_in(path: Path, text: str, known: Set[str], few: bool = False) -> list[str]:
    """The entries of a list: its lines or, in a table, its column of images (`_are_images`)."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for separator in SEPARATORS if path.suffix.lower() in (".csv", ".tsv") else ():
        rows = _rows(text, separator, known)
        for cells in zip(*rows, strict=False):
            if _are_images(cells, known, few) or _are_images(cells[1:], known, few):
                return [*cells] if _stem(cells[0]) in known else [*cells[1:]]
    return lines


def _in_one_file(path: Path, known: Set[str]) -> dict[str, list[str]]:
    """The images of each split in JSON or in CUB's form; empty for a file of another form."""
    if path.suffix.lower() in (".json", ".jsonl"):
        return _in_json(path)
    return _in_numbers(path) if _NUMBERED.fullmatch(path.name) else {}


def _in_numbers(path: Path) -> dict[str, list[str]]:
    """The images of each split in CUB's form: lines of an image's number and 1 for training or 0
    for test; lines of a number and a name are in images.txt beside it."""
    names_in = path.with_name("images.txt")
    if not names_in.is_file():
        return {}
    pairs = (line.strip().partition(" ") for line in read_text(names_in).split("\n"))
    names = {number: name.strip() for number, _, name in pairs}
    images: dict[str, list[str]] = defaultdict(list)
    for line in read_text(path).split("\n"):
        number, _, flag = line.strip().partition(" ")
        if number in names and flag in ("0", "1"):
            images["train" if flag == "1" else "test"].append(names[number])
    return dict(images)


def _in_json(path: Path) -> dict[str, list[str]]:
    """The images of each split in a file such as {"train": ["1.jpg", ...], "test": [...]}, in one
    that maps images to splits, or in records of an image and its split; empty for anything else."""
    value: Any = _json_lines(path) if path.suffix.lower() == ".jsonl" else read_json(path)
    images: dict[str, list[str]] = defaultdict(list)
    for key, own in value.items() if isinstance(value, dict) else ():
        if split_named(key) is not None and isinstance(own, list):
            images[split_named(key) or ""] += [name for name in own if isinstance(name, str)]
        elif isinstance(own, str) and (split_named(own) is not None or is_rest(own)):
            images[_word(own)].append(key)
    for record in value if isinstance(value, list) else ():
        name, word = _image_and_split(record) if isinstance(record, dict) else ("", "")
        if name and word:
            images[_word(word)].append(name)
    return dict(images)


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


def _is_of_image(record: Mapping[str, object], known: Set[str]) -> bool:
    """Whether a record says the split of an image that is known."""
    name, word = _image_and_split(record)
    return word != "" and _stem(name) in known


def _in_table(path: Path, known: Set[str], few: bool = False) -> dict[str, list[str]]:
    """The images of each split in a table with a column of images (`_are_images`) and one of words
    for splits, or in lines of an image, a blank and a word; empty for anything else."""
    beginning = _beginning(path)
    for separator in (*SEPARATORS, ""):
        places = _places(_rows(beginning, separator, known), known, few)
        if places is not None:
            image, split = places
            rows = _rows(read_text(path), separator, known)
            has_header = rows[0][split] != "" and _known_word(rows[0][split]) == ""
            images: dict[str, list[str]] = defaultdict(list)
            for row in rows[1:] if has_header else rows:
                if len(row) > max(places) and row[split]:
                    images[_word(row[split])].append(row[image])
            return dict(images)
    return {}


def _rows(text: str, separator: str, known: Set[str]) -> list[list[str]]:
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


def _is_row(line: str, separator: str, known: Set[str]) -> bool:
    """Whether a line that a quoted field reaches over is a row of its own, for it has an image."""
    quotes = 0
    for cell in line.split(separator):
        quotes += cell.count('"')
        if quotes % 2 == 0 and _stem(cell.strip().strip('"')) in known:
            return True
    return False


def _places(rows: Sequence[Sequence[str]], known: Set[str], few: bool) -> tuple[int, int] | None:
    """The places of the columns of images and of splits; None where either is missing, or where
    several columns may be the latter."""
    columns = [*zip(*rows, strict=False)]  # as far as the shortest row
    below = [cells[1:] for cells in columns]  # the first row may name the columns
    images = [place for place, cells in enumerate(below) if _are_images(cells, known, few)]
    names = [plain_name(cells[0]) for cells in columns]
    words = [[_known_word(cell) for cell in cells if cell] for cells in below]
    splits = [
        place
        for place, own in enumerate(words)
        if any(own) and (all(own) or names[place] in SPLIT_COLUMNS)
    ]
    named = first_of([names[place] for place in splits], SPLIT_COLUMNS)
    if named is not None:
        splits = [names.index(named)]
    return (images[0], splits[0]) if images and len(splits) == 1 else None


def _known_word(cell: str) -> str:
    """The split that a cell names, or Karpathy's fourth; "" for any other cell."""
    return _word(cell) if split_named(cell) is not None or is_rest(cell) else ""


def _word(cell: str) -> str:
    """A cell that says a split: train, val or test where it means that, else its own word."""
    return split_named(cell) or cell.strip()


def _are_images(entries: Collection[str], known: Set[str], few: bool = False) -> bool:
    """Whether most entries of a list name images that are known, with or without their endings.
    few: whether all have endings of images, and fewer than half, but some, are known."""
    number = sum(_stem(entry) in known for entry in entries)
    if few:
        are_files = all(entry.lower().endswith(IMAGE_ENDINGS) for entry in entries)
        return number > 0 and number * 2 <= len(entries) and are_files
    return number * 2 > len(entries)


def _tails(name: str) -> list[str]:
    """The last parts of an image's path, as `_stem` has the last one, the longest first."""
    parts = without_ending(unquote(with_slashes(name))).split("/")
    return ["/".join(parts[place:]) for place in range(len(parts))]


def _stem(name: str) -> str:
    """The last part of an image's name without its ending, in lower case, its blanks not as an
    address of the web has them."""
    return without_ending(unquote(with_slashes(name).rpartition("/")[2]))
