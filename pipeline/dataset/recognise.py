"""Which files of a folder a reader can read, told by what is in them, and which ones it reads.

A reader offers `recognise(folder) -> list[Found]`. It looks at the beginning of a file alone, so
that a folder with many large files is known in a second; `read` then names every fault.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.dataset.folder import Folder, depth
from pipeline.dataset.locate import is_among, stems_of
from pipeline.dataset.source import Options, find_in_raw, require_folder
from pipeline.dataset.splits import split_in_path, without_split
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.text import decode_text

LOOKED_AT = 1 << 20  # bytes at the beginning of a file
_LIST = re.compile(r'(?:^\s*|"(\w+)"\s*:\s*)\[\s*(?=\{)')


@dataclass(frozen=True)
class Found:
    """Files that one reader can read together.

    files: their paths inside the folder. names: some images as the files name them, empty where
    the images are inside the files. has_splits: whether they say, or their names say, which images
    are for test. is_published: whether they have the names that the dataset's authors gave them.
    """

    files: tuple[str, ...]
    names: tuple[str, ...] = field(default=(), repr=False)
    has_splits: bool = False
    is_published: bool = False

    def __str__(self) -> str:
        return listing(self.files, 3)


Recogniser = Callable[[Folder], list[Found]]


def quality(found: Found, stems: set[str]) -> tuple[bool, int, bool, bool]:
    """How good a find is, larger is better: images that are there come first, then what lies
    further up, then splits, then a published name.

    Args:
        found: the find.
        stems: `stems_of` the folder.
    """
    are_there = not found.names or any(is_among(name, stems) for name in found.names)
    deepest = max(depth(file.rpartition("/")[0]) for file in found.files)
    return are_there, -deepest, found.has_splits, found.is_published


def annotation_files(
    raw: Path,
    options: Options,
    folder: Folder,
    recognise: Recogniser,
    expected: str,
    published: Sequence[str] = (),
) -> Found:
    """The files that a reader reads: those that corpus.annotations names, or the best it knows.

    Args:
        raw: the user's folder.
        options: corpus.annotations, a file or a folder inside `raw`, or null.
        folder: the files of `raw`.
        recognise: the reader's.
        expected: what the reader can read, for messages.
        published: globs, in lower case, of the names that the dataset's authors gave their files.

    Returns:
        One find. A file that is named, or has a published name where there is nothing better, is
        taken whatever is in it: reading says what is wrong with it.

    Raises:
        WorkbenchError: no such file, none that the reader knows, or several that are equally good.
    """
    require_folder(raw)
    name = options.corpus.annotations
    if name is not None:
        path = find_in_raw(raw, name, "corpus.annotations")
        name = name.rstrip("/")
        if path.is_file():
            alone = Folder(raw, {name.rpartition("/")[0]: frozenset([path.name])})
            return next(iter(recognise(alone)), Found((name,)))
        inside = {
            place: files
            for place, files in folder.files.items()
            if place == name or place.startswith(name + "/")
        }
        folder = Folder(raw, inside)
    finds = recognise(folder)
    if not finds and published:
        finds = [Found((file,)) for file in folder.matching(*published)[:1]]
    if not finds:
        raise WorkbenchError(
            f"{raw if name is None else raw / name}: no annotation file; looked for {expected}",
            "set raw to the folder that holds it; to see what a folder holds: vse look FOLDER",
        )
    stems = stems_of(folder)
    finds.sort(key=lambda find: quality(find, stems), reverse=True)
    best = [find for find in finds if quality(find, stems) == quality(finds[0], stems)]
    if len(best) > 1:
        raise WorkbenchError(
            f"{raw}: several annotation files: {listing(best)}",
            f"choose one with corpus.annotations in params.yaml, such as {best[0].files[0]}",
        )
    return finds[0]


def files_by_split(files: Iterable[str]) -> list[tuple[str, ...]]:
    """Files that belong together: those of one folder whose names differ in their split alone.

    Args:
        files: paths inside the folder.

    Returns:
        Groups of files, `a_train.json` and `a_test.json` in one; a file whose name says no split,
        or the same as another's, is a group of its own.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    alone: list[tuple[str, ...]] = []
    for file in files:
        if split_in_path(file) is None:
            alone.append((file,))
        else:
            groups[without_split(file)].append(file)
    for own in groups.values():
        different = {split_in_path(file) for file in own}
        if len(different) == len(own):
            alone.append(tuple(own))
        else:
            alone += [(file,) for file in own]
    return alone


def head(path: Path) -> str:
    """The beginning of a file as text (`decode_text`); empty where it is none."""
    with open(path, "rb") as file:
        data = file.read(LOOKED_AT)
    for cut in range(4):  # the last character may be cut
        try:
            return decode_text(data[: len(data) - cut])
        except UnicodeDecodeError:
            continue
    return ""


def first_records(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """The first record of each list of records in a JSON file that its beginning shows.

    Args:
        path: a JSON file, or one with a JSON record on each line.

    Returns:
        By the list's key ("" for a file that is a list, or has a record on each line) its first
        record; empty where the file is none of these.
    """
    text = head(path)
    records: dict[str, Mapping[str, Any]] = {}
    if text.lstrip().startswith("{") and "\n" in text.strip():
        record = _decoded(text, text.index("{"))
        rest = text[text.index("{") :].splitlines()
        if record and _decoded(rest[0], 0) == record:
            records[""] = record
            return records
    for match in _LIST.finditer(text):
        name = match[1] or ""
        if name not in records:
            record = _decoded(text, match.end())
            if record:
                records[name] = record
        if name == "" or len(records) > 8:
            break
    return records


def _decoded(text: str, start: int) -> Mapping[str, Any]:
    """The JSON object that begins at a place of a text; empty where it is cut or none."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def has_key(path: Path, key: str) -> bool:
    """Whether a JSON file of any size has a key somewhere, as text."""
    wanted = f'"{key}"'.encode()
    kept = b""
    with open(path, "rb") as file:
        while block := file.read(LOOKED_AT):
            if wanted in kept + block:
                return True
            kept = block[-len(wanted) :]
    return False
