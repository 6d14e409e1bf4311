"""What people call columns of images, captions and splits, and what a cell of captions says.

Tables, records of JSON and rows of parquet files ask here: which columns hold captions
(`caption_columns`), and which captions are in a cell (`texts_of`), one or several.
"""

import ast
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pipeline.corpus.dataset.conversations import answers_of
from pipeline.runtime.errors import listing
from pipeline.runtime.text import is_text

IMAGE_COLUMNS = (
    "sourcefile",  # the whole path, as exiftool writes it beside its last part
    *("image", "filename", "file_name", "filepath", "file_path", "image_name", "image_path"),
    *("image_file", "img", "img_path", "img_name", "photo", "picture", "path", "file"),
    *("image_id", "image_url", "url"),
)
# The same, which other things may be called, too: only where files are called as their cells are.
RARE_IMAGE_COLUMNS = (
    *("source_ref", "image_files", "uri", "src", "screenshot", "screen_id", "painting"),
    *("bild", "bilddatei", "datei", "dateiname", "fichier", "imagen", "archivo", "imagem"),
    *("arquivo", "immagine", "图片", "图像", "画像"),
)
COMMON_CAPTION_COLUMNS = (
    *("caption", "captions", "comment", "text", "texts", "raw", "sentence", "sentences"),
    *("image_caption", "description", "image_description", "imagedescription", "caption_abstract"),
    *("report", "cap", "alt_text", "image_alt_text", "alternative_text"),
    *("caption_str", "prompt", "title"),
)
# Those of texts that may be others than captions, or of other languages, come last.
RARE_CAPTION_COLUMNS = (
    *("caption_text", "synthetic_caption", "annotations_captions", "utterance", "paragraph"),
    *("alt", "summary", "bildunterschrift", "bildbeschreibung", "beschreibung", "légende"),
    *("legende", "descripción", "descripcion", "leyenda", "descrizione", "didascalia"),
    *("descrição", "legenda", "描述", "说明", "説明", "описание", "подпись"),
)
CAPTION_COLUMNS = (*COMMON_CAPTION_COLUMNS, *RARE_CAPTION_COLUMNS)
SPLIT_COLUMNS = ("split", "set", "subset", "partition", "phase", "set_name")
ROW_NUMBERS = ("", "id", "index", "unnamed:_0")  # columns that only number what they stand beside
# A field of a record that is a caption; Karpathy's records have `raw`, `tokens` and `sentid`.
TEXT_FIELDS = ("raw", *CAPTION_COLUMNS, "_content")  # the last of Flickr's API
TOKENS = "tokens"
NUMBER = "sentid"
# What programs write for a missing caption, in Python, pandas, R, SQL, JavaScript and spreadsheets,
# and what people write for one that is to come.
NOTHING = frozenset(
    {"nan", "NaN", "NAN", "None", "NULL", "null", "NA", "<NA>", "#N/A", "N/A", "NaT", "\\N"}
    | {"undefined", "TODO", "TBD"}
    # what cameras write into every photograph
    | {"OLYMPUS DIGITAL CAMERA", "SONY DSC", "KONICA MINOLTA DIGITAL CAMERA", "Minolta DSC"}
    | {"SAMSUNG DIGITAL CAMERA", "SAMSUNG CAMERA PICTURES", "MINOLTA DIGITAL CAMERA"}
    | {"DIGITAL CAMERA", "KODAK Digital Still Camera", "CASIO DIGITAL CAMERA", "DCIM"}
)
# What stands between several captions in one cell.
BETWEEN = ("<sep>", "||", "|", "\n")
MOST_OF = 0.9  # of the cells of a column, of which the others may have one caption
FEWEST_WORDS = 3  # of a caption beside others in a cell
LONGEST_LIST = 1 << 20  # characters of a list that is written as text
# What programs for metadata write before a name (`XMP:Description`), and what Mechanical Turk
# writes before what it shows and what it is told.
_GROUP = r"(?:exif\w*|file|system|ifd0|iptc|xmp(?:_\w+)?|dc|dcterms|dublin_core):"
_BEFORE_IMAGE = re.compile(rf"{_GROUP}|input\.")
_BEFORE_CAPTION = re.compile(rf"{_GROUP}|answer\.")
# A list as Python writes it, with commas, or without as NumPy does: no parser sees anything else.
_STRING = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_PYTHON_LIST = re.compile(rf"\[\s*(?:(?:{_STRING.pattern})[\s,]*)+\]", re.DOTALL)


class Text(NamedTuple):
    """A caption of a cell: its words and its number where the cell gives them."""

    text: str
    tokens: tuple[str, ...] = ()
    number: str = ""


def plain_name(name: str) -> str:
    """The name of a column as the lists above have it: `File Name` is `file_name`."""
    words = name.strip(' \t\r\n"<>#').lower().replace("-", " ").replace("/", " ").split()
    return "_".join(words)


def image_columns(names: Sequence[str], wanted: Sequence[str] = IMAGE_COLUMNS) -> list[str]:
    """Those of some columns that are called as images are, the best first.

    Args:
        names: of the columns, as the file writes them.
        wanted: what columns of images are called, the best first.

    Returns:
        The names. Those that are called so but for a group of metadata before it (`File:FileName`)
        or without a blank (`imageFile`) come last.
    """
    own = [name for word in wanted for name in names if plain_name(name) == word]
    others = [name for word in wanted for name in names if _is_nearly(name, word, _BEFORE_IMAGE)]
    return [*dict.fromkeys([*own, *others])]


def _is_nearly(name: str, word: str, before: re.Pattern[str]) -> bool:
    """Whether a column is called by a word with something before it, or without its blanks."""
    plain = plain_name(name)
    match = before.match(plain)
    own = plain[match.end() :] if match is not None else plain
    return own.replace("_", "") == word.replace("_", "")


def first_of(names: Collection[str], wanted: Iterable[str]) -> str | None:
    """The first of some wanted names that is there; None for none.

    Args:
        names: those that are there.
        wanted: the names to look for, the best first.

    Returns:
        One of `wanted`; None where none of them is there.
    """
    return next((name for name in wanted if name in names), None)


def passed_over(names: Collection[str]) -> tuple[str, ...]:
    """A line that says which columns or fields of annotations are not read.

    Args:
        names: theirs; those that only number the rows are left out.

    Returns:
        The line, none for no names.
    """
    shown = [name for name in dict.fromkeys(names) if plain_name(name) not in ROW_NUMBERS]
    return (f"not read beside image and caption: {listing(shown, 8)}",) if shown else ()


@lru_cache
def caption_columns(
    names: tuple[str, ...], wanted: tuple[str, ...] = CAPTION_COLUMNS
) -> list[list[str]]:
    """Which columns of a table, or keys of a record, hold captions.

    Args:
        names: of the columns, as the file writes them.
        wanted: what columns of captions are called, the best first.

    Returns:
        For every wanted name that is there, the best first, the column that is called so, whatever
        its case, or all that are called so with a number (`caption_0`, `caption_1`).
    """
    return [own for own in (_called(names, word) for word in wanted) if own]


def _called(names: Sequence[str], word: str) -> list[str]:
    """The column of a name, or its numbered ones, in their order in the file."""
    numbered = re.compile(re.escape(word.lower().removesuffix("s")) + r"s?[ _.-]?\d{1,4}")
    return (
        [name for name in names if name == word]
        or [name for name in names if plain_name(name) == word.lower()]
    )[:1] or (
        [name for name in names if numbered.fullmatch(plain_name(name))]
        or [name for name in names if _is_nearly(name, word.lower(), _BEFORE_CAPTION)][:1]
    )


def is_plain(value: object) -> bool:
    """Whether a value is a text, or a list of texts that is not empty.

    Args:
        value: of a field.
    """
    return isinstance(value, str) or (
        isinstance(value, list) and value != [] and all(isinstance(text, str) for text in value)
    )


def are_captions(value: object) -> bool:
    """Whether a value could be captions: a text, or some, or records of one, or a conversation.

    Args:
        value: of a field.
    """
    if is_plain(value) or len(answers_of(value)) == 1:
        return True
    records = value if isinstance(value, list) else [value]
    return records != [] and all(isinstance(one, dict) and bool(texts_of(one)) for one in records)


def plain_texts(cell: str | Sequence[str | None] | None) -> list[str]:
    """The captions of a cell that is a text, texts, a list of texts that is written as text, or
    nothing; a null among texts is none."""
    if cell is None:
        return []
    if isinstance(cell, str):
        return listed_texts(cell) or [cell]
    return [text for text in cell if text is not None]


def texts_of(cell: Any, by_line: bool = False) -> list[Text]:
    """The captions of a cell.

    Args:
        cell: a text, a record with a text, a list of these, a conversation with one answer, or
            None. A text that is a list in JSON or in Python's form, `["a dog", "a cat"]`, is the
            captions in it.
        by_line: whether every line of a text is a caption, as in a `.txt` of WebDataset.

    Returns:
        The captions in their order; those that are None are passed over.
    """
    if cell is None:
        return []
    if isinstance(cell, str):
        if by_line:
            return [Text(line) for line in lines_of(cell)]
        if not cell.lstrip().startswith("["):
            return [Text(cell)]
        return _listed_records(cell) or [Text(text) for text in listed_texts(cell) or [cell]]
    if isinstance(cell, Mapping):
        return _texts_of_record(cell)
    answers = answers_of(cell)
    if answers:  # to several questions there is no telling which describes the image
        return [Text(answers[0])] if len(answers) == 1 else []
    return [text for entry in cell for text in texts_of(entry, by_line)]


def lines_of(text: str) -> list[str]:
    """The lines of a text that are not blank, or the texts of a list that it is; the text itself
    where there is neither."""
    lines = [line for line in text.split("\n") if line.strip()]
    return listed_texts(text) or lines or [text]


def listed_texts(text: str) -> list[str]:
    """The texts in a list that is written as text; empty where it is none."""
    first = text[:1]  # of most texts a letter, which tells without a copy of the text
    if first != "[" and not (first.isspace() and text.lstrip().startswith("[")):
        return []
    value = _json_list(text) or _python_list(text.strip())
    texts = [entry for entry in value if entry is not None]
    return texts if all(map(is_text, texts)) else []


def separator_of_captions(name: str, cells: Sequence[str]) -> str | None:
    """What stands between several captions in one cell, as `A dog runs.|A dog is on grass.`

    Args:
        name: of their column, "" for one without.
        cells: of captions, those of all rows.

    Returns:
        One of BETWEEN that nearly all cells have, between texts of several words. Line ends only
        in a column called in the plural (`captions`), where all cells have equal numbers of lines
        that begin alike, since a text may be wrapped. None where texts behind it are the same for
        most rows, as the name of a site is.
    """
    filled = [cell for cell in cells if cell.strip()]
    for sign in BETWEEN:
        if sum(sign in cell for cell in filled) < MOST_OF * len(filled) or not filled:
            continue
        parts = [[part.strip() for part in cell.split(sign)] for cell in filled]
        texts = [text for own in parts for text in own if text]
        are_texts = sum(len(text.split()) >= FEWEST_WORDS for text in texts) == len(texts)
        behind = [text for own in parts for text in own[1:] if text]
        differ = 2 * len(set(behind)) > len(behind)
        is_wrapped = sign == "\n" and not (name.endswith("s") and _are_lines(parts))
        return sign if are_texts and differ and not is_wrapped else None
    return None


def _are_lines(parts: Sequence[Sequence[str]]) -> bool:
    """Whether lines are texts of their own: as many in every cell, all of them with a capital at
    the beginning, or none."""
    numbers = {len([*filter(None, own)]) for own in parts}
    have_capitals = {text[:1].isupper() for own in parts for text in own if text}
    return len(numbers) == 1 and len(have_capitals) == 1


def _listed_records(text: str) -> list[Text]:
    """The captions of a list of records that is written as text; empty where it is none."""
    records = _json_list(text) if "{" in text else []
    if not all(isinstance(entry, dict) and first_of(entry, TEXT_FIELDS) for entry in records):
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


def _texts_of_record(record: Mapping[str, Any]) -> list[Text]:
    """The caption of a record; or its captions, where its fields are lists that belong together,
    as Hugging Face keeps a list of records."""
    texts = record.get(first_of(record, TEXT_FIELDS) or "")
    tokens = record.get(TOKENS)
    numbers = record.get(NUMBER)
    if isinstance(texts, str):
        return [_text(texts, tokens, numbers)]
    if not isinstance(texts, list):
        return []
    nothing = [None] * len(texts)
    if not isinstance(tokens, list) or len(tokens) != len(texts):
        tokens = nothing
    if not isinstance(numbers, list) or len(numbers) != len(texts):
        numbers = nothing
    rows = zip(texts, tokens, numbers, strict=True)
    return [_text(text, words, number) for text, words, number in rows if isinstance(text, str)]


def _text(text: str, tokens: Any, number: Any) -> Text:
    """A caption; words in lower case, as Karpathy's files are read, without any that is blank."""
    words = tokens if isinstance(tokens, list) and all(map(is_text, tokens)) else []
    kept = tuple(" ".join(words).lower().split())
    return Text(text, kept, "" if number is None else str(number))
