"""What the operating system refuses, as messages."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.runtime.errors import LESS_MEMORY, WorkbenchError

FULL = (errno.ENOSPC, errno.EDQUOT)
HINTS = {
    **dict.fromkeys(FULL, "free some space and run the command again; finished work is kept"),
    errno.EFBIG: "raise the limit on the size of files (ulimit -f) or write to another file system",
    errno.EROFS: "write to a file system that is not read-only",
    errno.EACCES: "mend the permissions and run the command again; finished work is kept",
    errno.EPERM: "mend the permissions and run the command again; finished work is kept",
    errno.EISDIR: "a folder is there; give the path of a file, or move the folder away",
    errno.ENOTDIR: "a part of the path is a file; give a path below folders, or move the file away",
    errno.EEXIST: "a file is where a folder is needed; give another path, or move it away",
    errno.ENAMETOOLONG: "give a shorter path",
    errno.ELOOP: "a link of the path leads back to itself; mend it",
    errno.ENOENT: "check the path; files of the workbench are made with: dvc repro",
    errno.ENOMEM: LESS_MEMORY,
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.EIO: "the disk or its connection failed; check it before the command is run again",
}


def to_workbench_error(
    error: OSError, path: Path | str | None = None, needed: int = 0
) -> WorkbenchError:
    """The system's refusal to read or write, as a message.

    Args:
        error: what the system raised.
        path: of the file; None: the one that the error names, if it names any.
        needed: bytes that were to be written, 0 where it is not known.

    Returns:
        The error to raise, with a hint for the common causes.

    Raises:
        OSError: `error` is a library's own, no refusal of the system.
    """
    if error.errno is None:  # a library's own, no refusal of the system
        raise error
    named = path or error.filename
    number = error.errno
    reason = error.strerror or os.strerror(number)
    if named is None:
        return WorkbenchError(f"while reading or writing: {reason}", HINTS.get(number, ""))
    text = f"{named}: {reason}"
    if number in FULL:
        folder = _existing_folder(Path(os.fsdecode(named)))
        wanted = f"{needed:,} bytes needed, " if needed else ""
        text += f": {wanted}{free_bytes(folder):,} free in {folder}"
    return WorkbenchError(text, HINTS.get(number, ""))


@contextmanager
def translating_write_errors(
    target: Path, temporary: Path | None = None, needed: int = 0
) -> Iterator[None]:
    """Turn an OSError of writing a file into a WorkbenchError that names it. Errors that name
    another file are left as they are.

    Args:
        target: the file that is written.
        temporary: the file that becomes it, if it is written beside it first.
        needed: bytes that it will have, 0 where it is not known.

    Yields:
        Nothing.

    Raises:
        WorkbenchError: the system refused to write the file.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(target), str(temporary)):
            raise
        raise to_workbench_error(error, target, needed) from None


def require_room(target: Path, needed: int) -> None:
    """Refuse to begin a file that the file system cannot hold.

    Args:
        target: the file; neither it nor its folder need be there.
        needed: bytes.

    Raises:
        WorkbenchError: fewer bytes are free.
    """
    folder = _existing_folder(target)
    free = free_bytes(folder)
    if free < needed:
        raise WorkbenchError(
            f"{target}: no room: {needed:,} bytes needed, {free:,} free in {folder}",
            HINTS[errno.ENOSPC],
        )


def free_bytes(folder: Path) -> int:
    """What a file in a folder may still grow by."""
    stats = os.statvfs(folder)
    return stats.f_bavail * stats.f_frsize


def _existing_folder(path: Path) -> Path:
    return next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())
