"""Files outside of DVC's sight that params.yaml names: links to them, and a digest of each.

DVC cannot template a dependency that may be null. So `stages.check_params` depends on a folder of
links to these files, which it makes itself. DVC hashes what a link leads to: a file that is
replaced under its name re-runs check_params, which writes the digest into the lists of the stages
that read the file, and these stages re-run.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file, write_text
from pipeline.runtime.process import say
from pipeline.runtime.section import NamesFile, Section

MOST_FILES = 1_000_000  # in a named folder; more is a folder that was not meant
LARGE = 1 << 30  # bytes of a file that takes seconds to read

Memory = dict[
    str, list[int | str]
]  # by path: what tells a file that was not written since, its SHA-256


def named_files(section: Section, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The files and folders that a section and those inside it name.

    Args:
        section: Sections of params.yaml, validated.
        prefix: Keys above the section, with a dot behind each.

    Yields:
        Dotted key and path, as params.yaml has it; only of what is there.
    """
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        marks = [mark for mark in field.metadata if isinstance(mark, NamesFile)]
        if isinstance(value, Section):
            yield from named_files(value, f"{prefix}{name}.")
        elif any(value not in mark.words for mark in marks) and os.path.exists(value or ""):
            yield f"{prefix}{name}", value


def link_files(folder: Path, files: Mapping[str, str]) -> None:
    """Make a folder hold links to the named files and to no others.

    Args:
        folder: Of the links; what is no link in it stays. Without files it need not be there.
        files: Path by dotted key. A file has a link of the key's name; a folder has a folder of
            this name with a link for every file in it.
    """
    wanted: dict[Path, str] = {}
    for key, path in files.items():
        for inside in _files_in(key, path):
            link = folder / key / inside
            wanted[link] = _link_target(Path(path, inside), link)
    for root, folders, names in os.walk(folder, topdown=False):
        for name in names:
            link = Path(root, name)
            if link.is_symlink() and wanted.get(link) != os.readlink(link):
                link.unlink()
        for name in folders:
            with suppress(OSError):  # not empty, or a link to a folder, which is not of ours
                Path(root, name).rmdir()
    for link, target in wanted.items():
        if not link.is_symlink():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)


def named_digests(files: Mapping[str, str], memory: Path) -> dict[str, str]:
    """A digest of every named file, of a folder over the names and digests of its files.

    Args:
        files: Path by dotted key.
        memory: JSON file that keeps digests for the next time, by size and time of change.

    Returns:
        SHA-256 by dotted key, hex.
    """
    known = _read_memory(memory)
    used: Memory = {}
    found: dict[str, str] = {}
    for key, path in files.items():
        digests = {}
        for inside in _files_in(key, path):
            file = os.path.abspath(os.path.join(path, inside))
            used[file] = _memory_of_file(key, file, used.get(file, known.get(file, [])))
            digests[inside] = str(used[file][-1])
        found[key] = _whole(digests)
    if used != known:
        write_text(memory, json.dumps(used))
    return found


def check_named(listing: Path, folder: Path, memory: Path) -> None:
    """Refuse a stage whose named files are others than check_params has listed: DVC would keep what
    it makes as made of those, and bring it back where they come back.

    Args:
        listing: The list that check_params wrote, with a line `key digest` for each named file or
            folder that the stage reads. Without a list nothing is checked.
        folder: Of the links to named files.
        memory: JSON file with the digests of files whose size and time are still those of then.

    Raises:
        WorkbenchError: Names a file or folder that has other content.
    """
    if not listing.is_file():
        return
    known = {tuple(signs): str(digest) for *signs, digest in _read_memory(memory).values()}
    for line in listing.read_text(encoding="utf-8").splitlines():
        key, _, digest = line.partition(" ")
        place = folder / key
        if not place.exists():
            continue
        digests = {}
        for inside in _files_in(key, str(place)):
            file = place / inside
            digests[inside] = known.get(tuple(_signs(file))) or sha256_file(file)
        if _whole(digests) != digest:
            raise WorkbenchError(
                f"{key}: {os.path.realpath(place)} was written after check_params had looked at it",
                "run dvc repro again, without --single-item",
            )


def _whole(digests: Mapping[str, str]) -> str:
    """The digest of a named file, or of all in a named folder, by their paths inside it."""
    if list(digests) == [""]:
        return digests[""]
    text = "".join(f"{inside} {digest}\n" for inside, digest in digests.items())
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _files_in(key: str, path: str) -> list[str]:
    """Files below a folder, sorted; hidden ones, which programs write beside data, are left out.
    Of a file: the empty path alone."""
    if not os.path.isdir(path):
        return [""]
    found: list[str] = []
    for root, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        below = os.path.relpath(root, path)
        for name in names:
            if not name.startswith(".") and os.path.isfile(os.path.join(root, name)):
                found.append(os.path.normpath(os.path.join(below, name)))
        if len(found) > MOST_FILES:
            raise WorkbenchError(
                f"{key} = {path!r}: more than {MOST_FILES:,} files",
                "name a folder with nothing but the files that are to be read",
            )
    return sorted(found)


def _link_target(path: Path, link: Path) -> str:
    """Where a link points: an absolute path stays one, others move with the repository."""
    if path.is_absolute():
        return str(path)
    return os.path.relpath(path.absolute(), os.path.realpath(link.parent))


def _read_memory(memory: Path) -> Memory:
    try:
        known = json.loads(memory.read_bytes())
    except (OSError, ValueError):  # without it all is read again
        return {}
    return known if isinstance(known, dict) else {}


def _memory_of_file(key: str, path: str, before: list[int | str]) -> list[int | str]:
    """What the memory keeps of a file: as before, where size and time are those of then."""
    signs = _signs(path)
    if before[:-1] == signs:
        return before
    if signs[0] > LARGE:
        say(f"{key}: reads {path} once, so that it is noticed when the file is replaced")
    return [*signs, sha256_file(path)]


def _signs(path: str | Path) -> list[int]:
    """What tells a file that was not written since: its size, its time of change, its number."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns, status.st_ino]
