"""What every reader takes and returns, and the questions all of them ask of a folder."""

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from pipeline import sections
from pipeline.errors import WorkbenchError, listing

IMAGE_FOLDERS = ("Images", "images", "flickr30k_images")

_HALF = re.compile(r"[\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Options:
    """All that a reader may depend on: the parameters that its stage declares to DVC."""

    seed: int
    corpus: sections.Corpus
    shapes: sections.Shapes
    workers: int = 1  # processes; never changes the result


@dataclass(frozen=True)
class Source:
    """What a reader found, in source order, before any check of the files.

    root: folder of the images. images: image_id (the file's path inside root, with slashes), split,
    and optionally group. captions: caption_id, image_id, text, and optionally tokens.
    boxes: image_id, x1, y1, x2, y2, object, attributes; None when there are none.
    remarks: lines for the user about what was left out by option.
    """

    root: Path
    images: pd.DataFrame
    captions: pd.DataFrame
    boxes: pd.DataFrame | None = None
    remarks: tuple[str, ...] = ()


Reader = Callable[[Path, Path, Options], Source]
"""read(raw, out, options): `raw` is the folder to read, `out` the one that rendered files go to."""


@dataclass
class Problems:
    """Problems of several kinds, each named with all its cases, raised as one error."""

    place: str
    lines: list[str] = field(default_factory=list)

    def add(self, kind: str, cases: Iterable[object]) -> None:
        """Note a kind of problem if it has cases."""
        names = list(cases)
        if names:
            self.lines.append(f"{kind} ({len(names):,}): {listing(names)}")

    def raise_if_any(self, hint: str = "") -> None:
        """Raise WorkbenchError with everything noted so far."""
        if self.lines:
            raise WorkbenchError(f"{self.place}: " + "\n  ".join(self.lines), hint)


def is_inside(name: str) -> bool:
    """Whether a name is a plain relative path: no root, no `..`, no backslash, no control codes."""
    path = PurePosixPath(name)
    plain = not path.is_absolute() and ".." not in path.parts and path.as_posix() == name
    return plain and name != "." and "\\" not in name and is_plain(name)


def is_plain(name: str) -> bool:
    """Whether a name fits on one line of a table: no control codes, no tabs, no line ends."""
    return not _CONTROL.search(name)


def is_text(value: object) -> bool:
    """Whether a value is a string of whole characters (JSON can smuggle in halves of some)."""
    return isinstance(value, str) and not _HALF.search(value)


def find_annotations(raw: Path, name: str | None, patterns: Sequence[str]) -> Path:
    """The annotation file in `raw`: the named one, or the only one that matches a pattern."""
    if not raw.is_dir():
        raise WorkbenchError(f"raw = {str(raw)!r}: not a folder", "set raw in params.yaml")
    if name is not None:
        path = _named(raw, name, "corpus.annotations")
        if not path.is_file():
            raise WorkbenchError(f"corpus.annotations = {name!r}: not a file", "name a file in raw")
        return path
    found = sorted({p for pattern in patterns for p in raw.glob(pattern) if p.is_file()})
    if len(found) == 1:
        return found[0]
    if found:
        raise WorkbenchError(
            f"{raw}: several annotation files: {listing(path.name for path in found)}",
            "choose one with corpus.annotations in params.yaml",
        )
    raise WorkbenchError(
        f"{raw}: no annotation file; looked for {', '.join(patterns)}",
        "set raw to the folder that holds it, or name it with corpus.annotations in params.yaml",
    )


def find_image_folder(raw: Path, name: str | None, files: Sequence[str]) -> Path:
    """The folder `files` are in: the named one, the only usual one, or `raw` itself."""
    if name is not None:
        folder = _named(raw, name, "corpus.images")
        if not folder.is_dir():
            raise WorkbenchError(f"corpus.images = {name!r}: not a folder", "name a folder in raw")
        return folder
    found = [raw / folder for folder in IMAGE_FOLDERS if (raw / folder).is_dir()]
    if len(found) > 1:
        raise WorkbenchError(
            f"{raw}: several image folders: {listing(path.name for path in found)}",
            "choose one with corpus.images in params.yaml",
        )
    if found:
        return found[0]
    if any(is_inside(file) and os.path.exists(raw / file) for file in files):
        return raw
    raise WorkbenchError(
        f"{raw}: no image folder; looked for {', '.join(IMAGE_FOLDERS)} and for the images "
        "themselves",
        "name the folder with corpus.images in params.yaml",
    )


def read_text(path: Path) -> str:
    """A file as UTF-8 text without a byte-order mark; WorkbenchError with the line otherwise."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WorkbenchError(
            f"{path}, line {line}: not UTF-8 (byte 0x{data[error.start]:02x})",
            "convert the file, for example with iconv -f latin1 -t utf-8",
        ) from None


def read_json(path: Path) -> Any:
    """The value in a JSON file; WorkbenchError with line and column where it is not valid."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise WorkbenchError(
            f"{path}, line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}",
            "download the file again",
        ) from None
    except (RecursionError, ValueError) as error:  # nested too deeply, a number of 5,000 digits
        raise WorkbenchError(f"{path}: not valid JSON: {error}") from None


def _named(raw: Path, name: str, key: str) -> Path:
    if not is_inside(name.rstrip("/")):
        raise WorkbenchError(f"{key} = {name!r}: must be a path inside raw = {str(raw)!r}")
    path = raw / name
    if not path.exists():
        raise WorkbenchError(f"{key} = {name!r}: no such file or folder in raw = {str(raw)!r}")
    return path
