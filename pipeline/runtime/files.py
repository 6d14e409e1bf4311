"""Files that are whole or absent, and digests that say what they were made from."""

import fcntl
import glob
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pipeline.runtime.disk import require_room, translating_write_errors


@contextmanager
def atomic_path(target: Path | str, size: int = 0) -> Iterator[Path]:
    """Write a file so that it is whole or absent, whatever ends the process. On success the
    temporary file is brought to disk and renamed, else it is removed, and so is what killed
    processes left.

    Args:
        target: the file's final path; its folder is made where it is missing.
        size: bytes that it will have at least: what has no room is refused before it is written.

    Yields:
        A path beside the target to write to.

    Raises:
        WorkbenchError: the system refuses to write, or has no room.
    """
    target = Path(target)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    with translating_write_errors(target, temporary, size):
        make_folder(target.parent)
        require_room(target, size)
        _remove_leftovers(target)
        # Locked as long as it is written: what is not locked was left by a kill.
        with open(temporary, "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            try:
                yield temporary
                publish(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)


def _remove_leftovers(target: Path) -> None:
    for leftover in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        with suppress(FileNotFoundError), open(leftover, "rb") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # another process is writing it
            leftover.unlink()


def publish(finished: Path, target: Path) -> None:
    """Move a finished file to its final name, atomically and so that it survives a power cut.

    Args:
        finished: the file, on the same file system.
        target: its final path; a file that is there is replaced.
    """
    with open(finished, "rb+") as handle:
        os.fsync(handle.fileno())
    make_folder(target.parent)
    os.replace(finished, target)
    _bring_to_disk(target.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, so that they survive a power cut."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        _bring_to_disk(path.parent)


def _bring_to_disk(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(target: Path | str, text: str) -> None:
    """Write UTF-8 text atomically.

    Args:
        target: the file.
        text: its whole content.
    """
    write_bytes(target, text.encode("utf-8"))


def write_bytes(target: Path | str, content: bytes | memoryview) -> None:
    """Write bytes atomically.

    Args:
        target: the file.
        content: its whole content.
    """
    with atomic_path(target, len(content)) as temporary:
        temporary.write_bytes(content)


def write_json(target: Path | str, value: object) -> None:
    """Write indented JSON atomically.

    Args:
        target: the file.
        value: of plain types; keys stay in their order.

    Raises:
        ValueError: NaN or infinity is in it.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_text(target, text + "\n")


def sha256_file(path: Path | str) -> str:
    """SHA-256 of a file's bytes as lower-case hex."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def files_digest(paths: Iterable[Path]) -> str:
    """SHA-256 hex over the names and contents of several files, in their order."""
    parts = "".join(f"{path.name}\0{sha256_file(path)}\n" for path in paths)
    return hashlib.sha256(parts.encode()).hexdigest()


def fingerprint(**parts: object) -> str:
    """SHA-256 hex over JSON-able parts (params, digests of inputs), the same for equal values."""
    text = json.dumps(parts, sort_keys=True, allow_nan=False, default=_jsonable)
    return hashlib.sha256(text.encode()).hexdigest()


def _jsonable(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot fingerprint a {type(value).__name__}")
