"""Locks between processes: who holds one is in its file."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.runtime.disk import written
from pipeline.runtime.errors import WorkbenchError


@contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Hold a lock while the context is open; the system frees it when the process dies.

    A record lock, not flock: workers must not keep it when their parent is killed.

    Args:
        path: of the lock's file, which stays.
        what: is run, for the message.

    Raises:
        WorkbenchError: another process holds it, naming that process.
    """
    with written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = open(path, "a+")  # noqa: SIM115 - closed below, which frees the lock
    with handle:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            handle.seek(0)
            holder = handle.read(32).strip() or "?"
            raise WorkbenchError(
                f"{what} is running already, as process {holder}, and would write the same files",
                "wait until it is done, or stop it; what it has finished is kept",
            ) from None
        handle.truncate(0)
        handle.write(f"{os.getpid()}\n")
        handle.flush()
        yield
