"""The files below a folder of the user, listed once for all who ask.

Links are followed, because datasets are often kept as links to a shared disk. Hidden files and
folders are passed over, and those that a system keeps for itself beside the user's files.
"""

import os
import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from pathlib import Path

from pipeline.runtime.errors import WorkbenchError, counted, listing

MOST_FILES = 5_000_000
DEEPEST = 12  # folders below the root; a link to a folder above its own would never end
# What macOS puts into zip files; thumbnails, bins and older states of Synology's and QNAP's disks;
# the bin and the notes of Windows; what a check of a disk has found.
OF_SYSTEMS = frozenset(
    {"__macosx", "@eadir", "#recycle", "#snapshot", "@recycle", "@recently-snapshot"}
    | {"$recycle.bin", "system volume information", "lost+found"}
)
IMAGE_ENDINGS = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
    *(".ppm", ".avif", ".jp2", ".heic", ".heif"),
)
# Files that programs change at any time, and that nobody reads as annotations.
OF_PROGRAMS = (".db", ".lock", ".log", ".part", ".tmp", "~")
_WEB = re.compile(r"https?://", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True, eq=False)
class Folder:
    """A folder and all files below it, as they were when it was listed.

    files: the names of the files in every folder, by the folder's path inside the root with
        slashes; "" is the root itself. A folder without files is there, too.
    """

    root: Path
    files: dict[str, frozenset[str]]

    def __iter__(self) -> Iterator[str]:
        """The paths of all files inside the root, shallow ones first, each folder's in order."""
        for folder in sorted(self.files, key=lambda path: (depth(path), path)):
            for name in sorted(self.files[folder]):
                yield joined(folder, name)

    @cached_property
    def stems(self) -> set[str]:
        """The names of all files, without folders and endings of images, in lower case."""
        return {without_ending(file) for files in self.files.values() for file in files}

    @cached_property
    def others(self) -> list[str]:
        """The files whose names do not end as those of images, in the order of iteration."""
        others = {
            place: frozenset(name for name in names if not name.lower().endswith(IMAGE_ENDINGS))
            for place, names in self.files.items()
        }
        return list(Folder(self.root, others))

    @cached_property
    def images(self) -> set[str]:
        """The paths of the files whose names end as those of images."""
        return {
            joined(place, name)
            for place, names in self.files.items()
            for name in names
            if name.lower().endswith(IMAGE_ENDINGS)
        }

    @property
    def photographs(self) -> int:
        """How many files have names that end as those of images."""
        return len(self.images)

    @cached_property
    def image_stems(self) -> frozenset[str]:
        """What these files are called without folders and endings, by `without_ending`."""
        return frozenset(without_ending(image.rpartition("/")[2]) for image in self.images)

    def matching(self, *patterns: str, deepest: int = DEEPEST) -> list[str]:
        """Paths of files that are no images and whose name matches one of some globs.

        Args:
            patterns: globs of file names in lower case; names are compared in lower case.
            deepest: the most folders between the root and the file.

        Returns:
            Paths inside the root, shallow ones first.
        """
        if not patterns:
            return []
        matches = re.compile("|".join(map(translate, patterns))).match
        return [
            file
            for file in self.others
            if matches(file.rpartition("/")[2].lower()) and file.count("/") <= deepest
        ]

    def below(self, name: str) -> "Folder":
        """The files in one folder of this one and below it; paths stay those inside the root.

        Args:
            name: the folder's path inside the root, with slashes.
        """
        start = name.rstrip("/") + "/"
        files = {place: own for place, own in self.files.items() if f"{place}/".startswith(start)}
        return Folder(self.root, files)


def list_folder(root: Path) -> Folder:
    """List all files below a folder.

    Raises:
        WorkbenchError: it is no folder, or has more than MOST_FILES files.
    """
    if not root.is_dir():
        raise WorkbenchError(f"raw = {str(root)!r}: not a folder", "set raw in params.yaml")
    files: dict[str, frozenset[str]] = {}
    total = 0
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        names, folders = _entries(root / folder)
        files[folder] = frozenset(names)
        total += len(names)
        if total > MOST_FILES:
            raise WorkbenchError(
                f"{root}: more than {MOST_FILES:,} files below it",
                "set raw to the folder of the dataset alone",
            )
        if depth(folder) < DEEPEST:
            waiting += [joined(folder, name) for name in folders]
    return Folder(root, files)


@contextmanager
def unchanged(root: Path, output: Path) -> Iterator[None]:
    """Read a folder that stays as it is: DVC takes what was made of it for what its content at the
    end makes, and would not read again what came meanwhile.

    Args:
        root: the folder.
        output: a folder that is written meanwhile, which may lie in it.

    Yields:
        Nothing.

    Raises:
        WorkbenchError: names files that came, went or were written while the context was open.
    """
    before = _state(root, output)
    yield
    after = _state(root, output)
    changed = sorted(
        file for file in before.keys() | after.keys() if before.get(file) != after.get(file)
    )
    if changed:
        raise WorkbenchError(
            f"{root}: {counted(len(changed), 'file')} came, went or changed while it was read: "
            f"{listing(changed)}",
            "run the same command again when the folder is complete",
        )


def _state(root: Path, output: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file that may be read, but for those in `output`."""
    if not root.is_dir():  # its reader says what is wrong
        return {}
    own = os.path.relpath(output.resolve(), root.resolve())
    state = {}
    for file in list_folder(root):
        if not file.lower().endswith(OF_PROGRAMS) and not file.startswith(f"{own}/"):
            with suppress(FileNotFoundError):  # a link into nothing, or gone just now
                status = os.stat(root / file)
                state[file] = (status.st_size, status.st_mtime_ns)
    return state


def _entries(path: Path) -> tuple[list[str], list[str]]:
    """The names of the files and of the folders in a folder, without hidden ones and a system's."""
    names: list[str] = []
    folders: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name.lower() in OF_SYSTEMS:
                continue
            if not entry.is_dir():
                names.append(entry.name)
            elif not entry.is_symlink() or not _is_above(entry.path, path):
                folders.append(entry.name)
    return names, folders


def _is_above(link: str, folder: Path) -> bool:
    """Whether a link in a folder leads to this folder or to one above it."""
    target = os.path.realpath(link)
    return any(os.path.realpath(place) == target for place in (folder, *folder.parents))


def joined(folder: str, name: str) -> str:
    """The path of a file inside a root.

    Args:
        folder: the path of its folder inside the root, "" for the root itself.
        name: the file's name, or its path inside the folder.

    Returns:
        The path from the root, with slashes.
    """
    return f"{folder}/{name}" if folder else name


def depth(folder: str) -> int:
    """How many folders lie between the root and what is in `folder`: 0 for the root itself."""
    return folder.count("/") + 1 if folder else 0


def with_slashes(name: str) -> str:
    """A name of an image as on this machine.

    Args:
        name: as annotations have it.

    Returns:
        The name with slashes, neither a root nor a drive nor `./` in front, and of an address of
        the web without what follows its path.
    """
    if _WEB.match(name):
        name = name.partition("?")[0].partition("#")[0]
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    if parts and _DRIVE.fullmatch(parts[0]):
        parts = parts[1:]
    return "/".join(parts)


def without_ending(file: str) -> str:
    """A file's name in lower case without the ending of an image: annotations may leave it out.
    Letters with marks are one character each, of which macOS makes two in names of files."""
    name = composed(file).lower()
    stem, dot, ending = name.rpartition(".")
    return stem if dot + ending in IMAGE_ENDINGS else name


def is_image_file(value: object) -> bool:
    """Whether a value of annotations is a name that ends as those of images.

    Args:
        value: of a field.
    """
    return isinstance(value, str) and value.lower().endswith(IMAGE_ENDINGS)


def stem_of(name: str) -> str:
    """The last part of an image's name in annotations, without its ending, in lower case.

    Args:
        name: as annotations have it, with any folders.
    """
    return without_ending(with_slashes(name).rpartition("/")[2])


def composed(name: str) -> str:
    """A name with each letter and its marks as one character (Unicode's form NFC).

    Args:
        name: of a file or a folder, as a disk or a table has it.

    Returns:
        The name; nearly all are as they were.
    """
    return unicodedata.normalize("NFC", name)


def shared_parts(first: str, second: str) -> int:
    """How many last folders two paths have in common.

    Args:
        first: a path of folders, with slashes.
        second: another.

    Returns:
        0 where their last folders have different names.
    """
    number = 0
    pairs = zip(
        reversed(composed(first).split("/")), reversed(composed(second).split("/")), strict=False
    )
    for one, other in pairs:
        if one != other or not one:
            break
        number += 1
    return number
