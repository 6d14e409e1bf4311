"""Rows that a column or field marks as rejected, deleted or false, and images in folders that are
called so: they are read, which is said."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pipeline.corpus.dataset.cells import plain_name
from pipeline.corpus.dataset.folder import Folder
from pipeline.corpus.dataset.recognise import head
from pipeline.corpus.dataset.splits import are_flags, is_flagged
from pipeline.corpus.dataset.table_form import SEPARATORS
from pipeline.runtime.errors import counted, listing
from pipeline.runtime.text import read_text

_TABLES = (".csv", ".tsv", ".txt")
# Flags of rows that nobody wants, flags of those that somebody does, and columns with words.
_AGAINST = re.compile(
    r"(?:is_|was_)?(?:reject(?:ed)?|delete[d]?|discard(?:ed)?|exclude[d]?|falsified|cancel+ed|bad)"
)
_FOR = re.compile(
    r"(?:is_|was_)?(?:match(?:ed|es)?|accept(?:ed)?|approved?|valid|correct|verified|good)"
)
# Of these each may be a class, so that 0 and 1 alone may say which captions are true.
_MAY_BE_TRUTH = re.compile(r"label|target|truth|ground_truth|gt|is_true|entail(?:ment|s)?|score")
_DECISIONS = re.compile(r"\w*(?:answer|status|decision|verdict|review)")
# Folders of what was put aside.
_ASIDE = re.compile(
    r"[_.~]*(?:reject(?:s|ed)?|trash(?:ed)?|discard(?:s|ed)?|deleted?|removed|excluded?|unwanted|bad"
    r"|duplicates?|old(?:er)?|backups?|bak|papierkorb|aussortiert|recycle[ _.-]?bin)",
    re.IGNORECASE,
)
_FALSE = frozenset({"0", "0.0", "false", "False"})
_TRUE = frozenset({"1", "1.0", "true", "True"})
_NO = frozenset(
    {"reject", "rejected", "delete", "deleted", "decline", "declined", "discard", "discarded"}
    | {"exclude", "excluded", "cancelled", "canceled", "ignore", "ignored", "invalid"}
)


def rejected_folders(images: Collection[str]) -> tuple[str, ...]:
    """A line about images in folders that are called as if they were put aside.

    Args:
        images: paths of all images that are read.

    Returns:
        The line; none without such images, or without others.
    """
    aside = Counter(
        part for image in images for part in image.split("/")[:-1] if _ASIDE.fullmatch(part)
    )
    number = sum(any(part in aside for part in image.split("/")[:-1]) for image in images)
    if number in (0, len(images)):
        return ()
    return (
        f"{counted(number, 'image')} in folders called {listing(aside, 3)}: read as all others",
    )


def rejected_rows(folder: Folder, files: Sequence[str], names: Collection[str]) -> tuple[str, ...]:
    """Lines about rows that are marked as rejected.

    Args:
        folder: the files of the user's folder.
        files: tables or JSON that are read, as paths inside it.
        names: of their columns or fields that are not read.

    Returns:
        A line for each column or field that marks some; none without any.
    """
    lines = []
    for name in dict.fromkeys(names):
        plain = plain_name(name)
        if not any(own.fullmatch(plain) for own in (_AGAINST, _FOR, _MAY_BE_TRUTH, _DECISIONS)):
            continue
        cells = [cell for file in files for cell in _cells(folder, file, name)]
        marked = Counter(cell for cell in cells if _is_against(plain, cell, cells))
        for cell, number in marked.items():
            rows = (
                f"{counted(number, 'row')} {'is' if number == 1 else 'are'} marked {name} = {cell}"
            )
            lines.append(f"{rows}: read as all others")
    return tuple(lines)


def _is_against(name: str, cell: str, cells: Collection[str]) -> bool:
    """Whether a cell says that its row is not wanted."""
    if _AGAINST.fullmatch(name):
        return is_flagged(cell)
    if _MAY_BE_TRUTH.fullmatch(name):
        return cell in _FALSE and set(cells) <= _FALSE | _TRUE and not _TRUE.isdisjoint(cells)
    if _FOR.fullmatch(name):
        return cell != "" and not is_flagged(cell) and are_flags(cells)
    return cell.lower() in _NO


def _cells(folder: Folder, file: str, name: str) -> Iterator[str]:
    """What the rows of a file have in a column or field, as text."""
    path = folder.root / file
    if path.suffix.lower() in _TABLES:
        yield from _of_table(path, head(folder, file).lstrip().partition("\n")[0], name)
        return
    value = re.compile(rf'"{re.escape(name)}"\s*:\s*("(?:[^"\\\n]|\\.)*"|true|false|[-\d.]+)')
    for match in value.finditer(read_text(path)):
        with suppress(ValueError):
            cell = json.loads(match[1])
            yield str(cell).lower() if isinstance(cell, bool) else str(cell)


def _of_table(path: Path, header: str, name: str) -> Iterator[str]:
    """The cells of a column of a table with a header."""
    separator = max(SEPARATORS, key=header.count)
    with suppress(csv.Error):
        rows = csv.reader(io.StringIO(read_text(path)), delimiter=separator)
        names = [plain_name(cell) for cell in next(rows, [])]
        if plain_name(name) not in names:
            return
        place = names.index(plain_name(name))
        for row in rows:
            yield row[place].strip() if len(row) == len(names) else ""
