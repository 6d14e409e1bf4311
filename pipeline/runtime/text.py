"""Text and JSON from outside: what is refused, and how a message says it."""

import json
import re
import shlex
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.first_bytes import HEAD, STAND_INS, explain, kind_of_bytes, misplaced

UTF16_SIGNS = 16  # bytes of ASCII in UTF-16, every second of them 0
# as iconv calls them
OTHER_ENCODINGS = (
    *("cp1252 (Western Windows)", "cp1251 (Cyrillic)", "gb18030 or big5 (Chinese)"),
    *("shift_jis (Japanese)", "euc-kr (Korean)", "macintosh"),
)

# What JSON and YAML hold: plain values by name, nested. Each has a type of its own, which whoever
# reads it knows.
Values = dict[str, Any]


def printable(text: str) -> str:
    """Text without control characters, which could rewrite a terminal."""
    return text if text.isprintable() else repr(text)


def safe_lines(text: str) -> str:
    """Text for a terminal: control codes, marks of direction and halves of characters escaped."""
    return _UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)


# C0 and C1 codes, what reverses or hides text (bidirectional marks, zero-width ones), surrogates
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_HALF = re.compile(r"[\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass
class Problems:
    """Problems of several kinds, each named with all its cases, raised as one error."""

    place: str
    lines: list[str] = field(default_factory=list)

    def add(self, kind: str, cases: Iterable[object]) -> None:
        """Note a kind of problem if it has cases.

        Args:
            kind: what is wrong, in the plural.
            cases: where it is wrong, each shown by `str`.
        """
        names = list(cases)
        if names:
            self.lines.append(f"{kind} ({len(names):,}): {listing(names)}")

    def raise_if_any(self, hint: str = "") -> None:
        """Raise WorkbenchError with everything noted so far."""
        if self.lines:
            raise WorkbenchError(f"{self.place}: " + "\n  ".join(self.lines), hint)


def is_inside(name: str) -> bool:
    """Whether a name is a plain relative path: no root, no `..`, no `.`, nothing empty between two
    slashes, no backslash, no control codes."""
    if not name or "\\" in name or not is_plain(name):
        return False
    if "/" not in name:
        return name not in (".", "..")
    return all(part not in ("", ".", "..") for part in name.split("/"))


def is_plain(name: str) -> bool:
    """Whether a name fits on one line of a table: no control codes, no tabs, no line ends."""
    return not _CONTROL.search(name)


def is_text(value: object) -> bool:
    """Whether a value is a string of whole characters (JSON can smuggle in halves of some)."""
    return isinstance(value, str) and not _HALF.search(value)


def decode_text(data: bytes) -> str:
    """Bytes as text, without the mark at their beginning: UTF-16 where they begin with its mark, as
    Excel writes it, or with ASCII in it, otherwise UTF-8; UnicodeDecodeError for others."""
    return data.decode(_encoding(data))


def _encoding(data: bytes) -> str:
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "utf-16"
    even = data[:UTF16_SIGNS:2]
    odd = data[1:UTF16_SIGNS:2]
    if len(data) >= UTF16_SIGNS:
        if _is_ascii(even) and not any(odd):
            return "utf-16-le"
        if _is_ascii(odd) and not any(even):
            return "utf-16-be"
    return "utf-8-sig"


def _is_ascii(data: bytes) -> bool:
    return data.isascii() and all(data)


def decode_beginning(data: bytes) -> str | None:
    """The first bytes of a file as text (`decode_text`), of which the last character may be cut;
    None for what is neither encoding."""
    for cut in range(4):
        try:
            return decode_text(data[: len(data) - cut])
        except UnicodeDecodeError:
            continue
    return None


def read_text(path: Path) -> str:
    """A file as text (`decode_text`). WorkbenchError for what is no text or only stands for it, as
    a pointer of git-lfs does, and with the line where it is neither encoding."""
    if path.is_symlink() and not path.exists():
        raise WorkbenchError(
            f"{path}: a link to a file that is not there",
            "copy or download that file, or make the link anew",
        )
    data = path.read_bytes()
    kind = kind_of_bytes(data[:HEAD])
    if kind is not None and kind.key in STAND_INS:
        raise misplaced(kind, path)
    try:
        return decode_text(data)
    except UnicodeDecodeError as error:
        if kind is not None:  # of an archive more is told by its members
            raise explain(path) or misplaced(kind, path) from None
        line = data.count(b"\n", 0, error.start) + 1
        raise WorkbenchError(
            f"{path}, line {line}: not UTF-8 (byte 0x{data[error.start]:02x})",
            "convert it by iconv -f ENCODING -t utf-8, with the encoding it was written in: "
            f"{', '.join(OTHER_ENCODINGS)}; look at its words, for a wrong one gives wrong letters",
        ) from None


def refuse_conflict(text: str, path: Path) -> None:
    """Refuse a text in which a git merge or rebase has left both sides.

    Args:
        text: of the file.
        path: the file, for the message.

    Raises:
        WorkbenchError: it has the marks of git; the first line with one is named.
    """
    lines = text.splitlines()
    marks = [at for at, line in enumerate(lines, 1) if line.startswith(("<<<<<<< ", ">>>>>>> "))]
    if marks and any(line.startswith("=======") for line in lines):
        raise WorkbenchError(
            f"{path}, line {marks[0]}: conflict markers of git: two branches have changed it",
            f"choose a side: git checkout --theirs {shlex.quote(str(path))} (or --ours), "
            "likewise dvc.lock and the other files that git status names; then dvc repro",
        )


def read_json(path: Path) -> Any:
    """The value in a JSON file; WorkbenchError with line and column where it is not valid."""
    text = read_text(path)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        refuse_conflict(text, path)
        raise WorkbenchError(
            f"{path}, line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}",
            "download the file again",
        ) from None
    except (RecursionError, ValueError) as error:  # nested too deeply, a number of 5,000 digits
        raise WorkbenchError(f"{path}: not valid JSON: {error}") from None
