"""Locks between processes: who holds one is in its file."""

import errno
import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any

from pipeline.runtime.disk import translating_write_errors
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import owns_work


def command_lock(
    work: Path, stage: str, options: Mapping[str, Any]
) -> AbstractContextManager[None]:
    """A lock on what a command writes, held by one process of a training.

    Args:
        work: the folder that keeps locks, in `locks`.
        stage: the command's name, for the message.
        options: the command's options by name; `output` or `ranks` say that it writes, `name` and
            `rows` tell its locks apart.

    Returns:
        The lock, taken when it is entered; a context that does nothing for commands that write
        nothing.
    """
    if not (options.get("output") or options.get("ranks")) or not owns_work():
        return nullcontext()
    item = options.get("name") or ("" if options.get("output") else options["ranks"].stem)
    part = "_".join(map(str, options.get("rows") or ()))
    parts = (re.sub(r"\W", "_", part) for part in (stage, item, part) if part)
    return hold_lock(work / "locks" / f"{'-'.join(parts)}.lock", stage)


def measuring_lock() -> AbstractContextManager[None]:
    """A lock of this user on the machine: benchmarks and claims would slow each other down."""
    path = Path.home() / ".cache" / "vse_workbench" / "measuring.lock"
    return hold_lock(path, "a benchmark or `vse claims run`", "both would be slower")


@contextmanager
def hold_lock(path: Path, what: str, harm: str = "would write the same files") -> Iterator[None]:
    """Hold a lock while the context is open; the system frees it when the process dies. A record
    lock, not flock: workers must not keep it when their parent is killed.

    Args:
        path: the lock's file; it names the process that holds it.
        what: is running, for the message.
        harm: what two at once would do, for the message.

    Yields:
        Nothing.

    Raises:
        WorkbenchError: another process holds the lock.
    """
    with translating_write_errors(path):
        handle = _open_locked(path, what, harm)
        handle.truncate(0)
        handle.write(f"{os.getpid()}\n")
        handle.flush()
    with handle:
        try:
            yield
        finally:  # before the lock is freed, so that no other process holds this file
            path.unlink(missing_ok=True)
            with suppress(OSError):  # other locks are there
                path.parent.rmdir()


def _open_locked(path: Path, what: str, harm: str) -> IO[str]:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = open(path, "a+")  # noqa: SIM115 - closing it frees the lock
            _lock_or_refuse(handle, what, harm)
            if os.path.samestat(os.fstat(handle.fileno()), os.stat(path)):
                return handle
            handle.close()  # of a process that ended just now, and took its file away
        except FileNotFoundError:
            continue


def _lock_or_refuse(handle: IO[str], what: str, harm: str) -> None:
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        handle.seek(0)
        holder = handle.read(32).strip() or "?"
        handle.close()
        raise WorkbenchError(
            f"{what} is running already, as process {holder}, and {harm}",
            "wait until it is done, or stop it; what it has finished is kept",
        ) from None
