"""A table that pandas wrote as JSON by its columns (`DataFrame.to_json`), as records."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from pipeline.corpus.dataset.folder import IMAGE_ENDINGS, Folder
from pipeline.corpus.dataset.recognise import head
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import read_text

# {"image":{"0":"1.jpg","1": ...}, "caption":{"0": ...}}, which is what to_json writes unasked.
_BY_COLUMN = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*(?![\[{])')
# {"columns":["image","caption"],"index":[0,1],"data":[["1.jpg","..."], ...]}: orient="split"
_SPLIT = re.compile(r'\s*\{\s*"columns"\s*:\s*\[')


@lru_cache(maxsize=16)
def records_of_columns(folder: Folder, file: str) -> Sequence[dict[str, Any]]:
    """The rows of a table that a JSON file holds by columns.

    Args:
        folder: the files of the user's folder.
        file: a JSON file in it.

    Returns:
        A record for each row, in the order of the file; none where the file is of another form.
    """
    text = head(folder, file)
    if not (_BY_COLUMN.match(text) or _SPLIT.match(text)):
        return ()
    with suppress(WorkbenchError, ValueError, RecursionError):  # the reader says what is wrong
        whole: dict[str, Any] = json.loads(read_text(folder.root / file))
        return _by_split(whole) if _SPLIT.match(text) else _by_column(whole)
    return ()


def _by_column(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of columns that all have the same labels of rows; where these are files of images, as
    after `set_index("image")`, they are a column, too."""
    columns = list(whole.values())
    if not all(isinstance(own, dict) for own in columns):
        return []
    labels = list(columns[0])
    are_images = all(label.lower().endswith(IMAGE_ENDINGS) for label in labels)
    if not are_images and not all(label.isdecimal() for label in labels):
        return []  # records of something, whose fields are no rows
    if any(list(own) != labels for own in columns):
        return []
    rows = [{name: own[label] for name, own in whole.items()} for label in labels]
    if are_images and "image" not in whole:
        return [{"image": label, **row} for label, row in zip(labels, rows, strict=True)]
    return rows if len(columns) > 1 else []


def _by_split(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of lists of values beside a list of the columns' names."""
    names = whole.get("columns")
    rows = whole.get("data")
    if not isinstance(names, list) or not isinstance(rows, list):
        return []
    if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        return []
    return [dict(zip(map(str, names), row, strict=True)) for row in rows]
