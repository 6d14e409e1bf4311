"""What a cell of a table, or the text of a member, says: one caption, or several."""

import ast
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline.dataset.columns import CAPTION_COLUMNS
from pipeline.runtime.text import is_text

# A field of a record that is a caption; Karpathy's records have `raw`, `tokens` and `sentid`.
TEXT_FIELDS = ("raw", *CAPTION_COLUMNS)
TOKENS, NUMBER = "tokens", "sentid"
LONGEST_LIST = 1 << 20  # characters of a list that is written as text
# A list as Python writes it, with commas, or without as NumPy does: no parser sees anything else.
_STRING = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_PYTHON_LIST = re.compile(rf"\[\s*(?:(?:{_STRING.pattern})[\s,]*)+\]", re.DOTALL)


class Text(NamedTuple):
    """A caption of a cell: its words and its number where the cell gives them."""

    text: str
    tokens: tuple[str, ...] = ()
    number: str = ""


def texts_of(cell: Any, by_line: bool = False) -> list[Text]:
    """The captions of a cell.

    Args:
        cell: a text, a record with a text, a list of these, or None. A text that is a list in
            JSON or in Python's form, `["a dog", "a cat"]`, is the captions in it.
        by_line: whether every line of a text is a caption, as in a `.txt` of WebDataset.

    Returns:
        The captions in their order; those that are None are passed over.
    """
    if cell is None:
        return []
    if isinstance(cell, str):
        if by_line:
            return [Text(line) for line in lines_of(cell)]
        records = _listed_records(cell)
        return records or [Text(text) for text in listed_texts(cell) or [cell]]
    if isinstance(cell, Mapping):
        return _texts_of_record(cell)
    return [text for entry in cell for text in texts_of(entry, by_line)]


def lines_of(text: str) -> list[str]:
    """The lines of a text that are not blank, or the texts of a list that it is; the text itself
    where there is neither."""
    lines = [line for line in text.split("\n") if line.strip()]
    return listed_texts(text) or lines or [text]


def listed_texts(text: str) -> list[str]:
    """The texts in a list that is written as text; empty where it is none."""
    if not text.lstrip().startswith("["):
        return []
    value = _json_list(text) or _python_list(text.strip())
    texts = [entry for entry in value if entry is not None]
    return texts if all(map(is_text, texts)) else []


def _listed_records(text: str) -> list[Text]:
    """The captions of a list of records that is written as text; empty where it is none."""
    if not text.lstrip().startswith("[") or "{" not in text:
        return []
    records = _json_list(text)
    if not all(isinstance(entry, dict) and text_field(entry) for entry in records):
        return []
    texts = [own for entry in records for own in _texts_of_record(entry)]
    return texts if all(is_text(own.text) for own in texts) else []


def _json_list(text: str) -> list[Any]:
    """The list that a text is in JSON; empty for any other text."""
    if len(text) > LONGEST_LIST or not text.rstrip().endswith("]"):
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _python_list(text: str) -> list[str]:
    """The texts of a list in Python's form; empty for any other text."""
    if len(text) > LONGEST_LIST or not _PYTHON_LIST.fullmatch(text):
        return []
    try:
        return [ast.literal_eval(word) for word in _STRING.findall(text)]
    except (ValueError, SyntaxError):  # a line end inside quotes, an escape that is none
        return []


def text_field(names: Any) -> str | None:
    """The field of a record that is its caption, of those that it has; None for none."""
    return next((name for name in TEXT_FIELDS if name in names), None)


def _texts_of_record(record: Mapping[str, Any]) -> list[Text]:
    """The caption of a record; or its captions, where its fields are lists that belong together,
    as Hugging Face keeps a list of records."""
    field = text_field(record)
    texts = record[field] if field else None
    tokens, numbers = record.get(TOKENS), record.get(NUMBER)
    if isinstance(texts, str):
        return [_text(texts, tokens, numbers)]
    if not isinstance(texts, list):
        return []
    count = len(texts)
    tokens = tokens if isinstance(tokens, list) and len(tokens) == count else [None] * count
    numbers = numbers if isinstance(numbers, list) and len(numbers) == count else [None] * count
    rows = zip(texts, tokens, numbers, strict=True)
    return [_text(text, words, number) for text, words, number in rows if isinstance(text, str)]


def _text(text: str, tokens: Any, number: Any) -> Text:
    """A caption; words in lower case, as Karpathy's files are read, without any that is blank."""
    words = tokens if isinstance(tokens, list) and all(map(is_text, tokens)) else []
    kept = tuple(" ".join(words).lower().split())
    return Text(text, kept, "" if number is None else str(number))
