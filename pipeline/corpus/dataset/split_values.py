"""The images of splits in JSON and YAML: a list of one split, or a division of all."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.corpus.dataset.cells import IMAGE_COLUMNS, first_of
from pipeline.corpus.dataset.split_names import (
    JSON_LINES,
    NUMBERED_COLUMNS,
    NUMBERS_OF_CELEBA,
    YAML,
    Images,
    Known,
    list_stem,
    split_of_list,
    unsaid,
    without_zeros,
    word_of,
)
from pipeline.corpus.dataset.splits import is_rest, split_field, split_named
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import read_json, read_text
from pipeline.runtime.yaml_text import plain_yaml

DATA_ENDINGS = (".json", *JSON_LINES, *YAML)
_LIST_UNDER_KEY = re.compile(r'"(?:[^"\\]|\\.)*"\s*:\s*\[')


def names_in_data(path: Path, known: Known) -> list[str]:
    """The names in a list of JSON or YAML, which may stand under a key.

    Args:
        path: the file, which has one of DATA_ENDINGS.
        known: the images.

    Returns:
        The names, as they are written; those of other images, too.
    """
    return _names_of_one(_lists_of(_value_of(path)), known)


def data_lists_images(path: Path, text: str, known: Known, few: bool) -> bool:
    """Whether a list of JSON or YAML names some images that are known.

    Args:
        path: the file, which has one of DATA_ENDINGS.
        text: its beginning, by which JSON is judged.
        known: the images.
        few: as in `Known.are`.

    Returns:
        Whether it does.
    """
    is_yaml = path.suffix.lower() in YAML
    lists = _lists_of(_value_of(path)) if is_yaml else first_lists(path, text)
    return known.are(_names_of_one(lists, known, few), few)


def divided_in_data(path: Path, known: Known) -> Images:
    """The images of each split in JSON or YAML: in its value, or in the one value inside it that
    has some that are known.

    Args:
        path: the file, which has one of DATA_ENDINGS.
        known: the images.

    Returns:
        By split, whether or not there are such images; empty for a value of another form.

    Raises:
        WorkbenchError: several divisions of the images, or numbers in the place of words for
            splits.
    """
    value = _value_of(path)
    images = _in_value(value, known)
    if images:
        return images
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    inside = [*filter(None, (_in_value(part, known) for part in parts))]
    of_known = [own for own in inside if known.are_in(own)]
    if any(own != of_known[0] for own in of_known[1:]):
        raise WorkbenchError(
            f"{path}: {len(of_known):,} divisions of the images that differ, such as folds",
            "write one of them to a file of its own, and name it by corpus.split_files in "
            "params.yaml",
        )
    _check_no_numbers(path, value, known)
    return next(iter(of_known or inside), {})


def _in_value(value: Any, known: Known) -> Images:
    """The images of each split in a value such as {"train": ["1.jpg", ...], "test": [...]}, in one
    that maps images to splits, or in records of an image and its split."""
    images: Images = defaultdict(list)
    for key, own in value.items() if isinstance(value, dict) else ():
        split = split_of_list(key) if isinstance(key, str) else None
        if split is not None and isinstance(own, list | dict):
            images[split] += _names_of_one(_lists_of(own), known)
        elif isinstance(own, str) and (split_named(own) is not None or is_rest(own)):
            images[word_of(own)].append(str(key))
    records = [own for own in value if isinstance(own, dict)] if isinstance(value, list) else []
    words = [_word_of_record(record) for record in records]
    field = _image_field(records, known) if any(words) else ""
    for record, word in zip(records, words, strict=True):
        name = _name(record, field)
        if word and isinstance(name, str) and name:
            images[word_of(word)].append(name)
    return {split: names for split, names in images.items() if names}


def _check_no_numbers(path: Path, value: Any, known: Known) -> None:
    """Raise WorkbenchError for images that are known and have numbers in the place of words for
    splits: as values of their names, or in a field of their records."""
    inside = value.values() if isinstance(value, dict) else ()
    for own in (value, *inside):
        numbers = {}
        if isinstance(own, dict):
            numbers = {str(name): str(number) for name, number in own.items()}
        elif isinstance(own, list):
            records = [record for record in own if isinstance(record, dict)]
            field = _image_field(records, known)
            numbers = {str(_name(record, field)): _number_for_split(record) for record in records}
        different = set(numbers.values())
        if len(different) > 1 and different <= {*NUMBERS_OF_CELEBA} and known.are(numbers):
            raise unsaid(f"{path}: images have numbers for splits")


def _word_of_record(record: Mapping[str, object]) -> str:
    """The word in a record's field for the split; "" where it has none."""
    word = record.get(split_field(record) or "")
    return word if isinstance(word, str) else ""


def _number_for_split(record: Mapping[str, object]) -> str:
    """The number in a record's field for the split; "" where it has none."""
    field = first_of(record, NUMBERED_COLUMNS)
    number = str(record[field]) if field is not None else ""
    return number if number in NUMBERS_OF_CELEBA else ""


def _lists_of(value: Any) -> list[list[Any]]:
    """The lists of a value: itself, or those under its keys."""
    if isinstance(value, list):
        return [value]
    inside = value.values() if isinstance(value, dict) else ()
    return [own for own in inside if isinstance(own, list)]


def _names_of_one(lists: Sequence[list[Any]], known: Known, few: bool = False) -> list[str]:
    """The names in the one of some lists that names images, or that names all that the others name:
    MS-COCO's annotations repeat what its images are. Of a single list whatever it names."""
    named = [_names(entries, _image_field(entries, known, few)) for entries in lists]
    if len(named) == 1:
        return named[0]
    named = [names for names in named if known.are(names, few)]
    meant = [{without_zeros(list_stem(name)) for name in names} for names in named]
    for names, own in zip(named, meant, strict=True):
        if all(other <= own for other in meant):
            return names
    return []


def _image_field(entries: Iterable[object], known: Known, few: bool = False) -> str:
    """The field of records that names images which are known; "" for the usual ones."""
    records = [entry for entry in entries if isinstance(entry, dict)]
    if known.are(_names(records, ""), few):
        return ""
    for field in dict.fromkeys(field for record in records for field in record):
        names = _names(records, field)
        if known.are(names, few) and not all(map(str.isdecimal, names)):  # which count records
            return field
    return ""


def _names(entries: Iterable[object], field: str) -> list[str]:
    """The names of images in a list of JSON, which has texts, numbers or records."""
    names = [_name(entry, field) if isinstance(entry, dict) else entry for entry in entries]
    return [str(name) for name in names if isinstance(name, str | int) and type(name) is not bool]


def _name(record: Mapping[str, object], field: str) -> object:
    """What a record has in a field, "" for the first of the usual ones."""
    return record.get(field or first_of(record, IMAGE_COLUMNS) or "")


def first_lists(path: Path, text: str) -> list[list[Any]]:
    """The lists in the beginning of JSON, with their first values.

    Args:
        path: the file.
        text: its beginning.

    Returns:
        The list that the file is, or has on its lines, or those under its keys.
    """
    start = len(text) - len(text.lstrip())
    if path.suffix.lower() in JSON_LINES:
        return [_first_values(text, start)[0]]
    if text[start : start + 1] == "[":
        return [_first_values(text, start + 1)[0]]
    lists: list[list[Any]] = []
    place = start
    while match := _LIST_UNDER_KEY.search(text, place):
        values, place = _first_values(text, match.end())
        lists.append(values)
    return lists


def _first_values(text: str, place: int) -> tuple[list[Any], int]:
    """The values of JSON from a place of a text on, and the place behind them."""
    decoder = json.JSONDecoder()
    values: list[Any] = []
    while True:
        while text[place : place + 1] in (" ", "\t", "\r", "\n", ","):
            place += 1
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            return values, place
        values.append(value)


def _value_of(path: Path) -> Any:
    """The value in a file of JSON or YAML; of a value on each line the list of these."""
    ending = path.suffix.lower()
    if ending in YAML:
        return plain_yaml(read_text(path), str(path), "mend it, or move it away")
    if ending not in JSON_LINES:
        return read_json(path)
    values = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        try:
            values += [json.loads(line)] if line.strip() else []
        except (ValueError, RecursionError):
            raise WorkbenchError(f"{path}, line {number}: no JSON: {line[:60]!r}") from None
    return values


def is_of_image(record: Mapping[str, object], known: Known) -> bool:
    """Whether a record of JSON says the split of an image that is known.

    Args:
        record: with any fields.
        known: the images.

    Returns:
        Whether it has both, the split in any word or number.
    """
    says = split_field(record) is not None or _number_for_split(record) != ""
    return says and any(isinstance(own, str) and own in known for own in record.values())
