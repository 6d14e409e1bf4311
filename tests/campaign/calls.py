"""The calls that change files: counted in a child, which ends at one of them, is refused one, or
writes all of them down.

The product writes through Python alone. So they are counted in `os`, and files are opened for
writing by Python's own form of `open`, which calls `os`. What gets past them shows where a
recorded run is played again.
"""

import _pyio
import builtins
import fcntl
import io
import itertools
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

OF_DESCRIPTORS = ("write", "pwrite", "fsync", "ftruncate", "posix_fallocate")
OF_PATHS = ("open", "rename", "replace", "unlink", "remove", "mkdir", "rmdir")
MAKING = os.O_CREAT | os.O_TRUNC


class Call(NamedTuple):
    """A call that may have changed something; paths from the folder on.

    place: of the bytes that were written, or the new size.
    """

    kind: str
    path: str
    other: str = ""
    place: int = 0
    data: bytes = b""


def arm(
    folder: Path,
    point: int = 0,
    error: int = 0,
    is_torn: bool = False,
    journal: Path | None = None,
    of_group: bool = False,
) -> None:
    """Count calls below a folder from now on, in this process, which must be a child.

    point: number of the call, from 1, before which the process ends, or that is refused with an
    error; 0 for none; is_torn: a write at which it ends has written half; journal: a file for what
    the calls did; of_group: the whole group of this process ends with it.
    """
    numbers = itertools.count(1)
    written = open(journal, "wb", buffering=0) if journal else None  # noqa: SIM115 - to the end

    def counted(kind: str, real: Callable[..., Any], *given: Any, **named: Any) -> Any:
        path = _name(folder, given[0], named.get("dir_fd")) if given else "."
        other = _name(folder, given[1]) if kind in ("rename", "replace") else ""
        if not (path or other) or (kind == "open" and not _makes(*given)):
            return real(*given, **named)
        if next(numbers) == point:
            if error:
                names = [] if isinstance(given[0], int) else [given[0]]
                raise OSError(error, os.strerror(error), *names)
            if is_torn and kind in ("write", "pwrite"):
                real(given[0], given[1][: len(given[1]) // 2], *given[2:])
            os.killpg(0, signal.SIGKILL) if of_group else os.kill(os.getpid(), signal.SIGKILL)
        call = Call(kind, path or "", other or "", *_change(kind, given))
        result = None
        try:
            result = real(*given, **named)
        except OSError:
            call = call._replace(kind="failed")
            raise
        finally:
            if written:
                pickle.dump(_done(call, given, result), written)
        return result

    for name in (*OF_DESCRIPTORS, *OF_PATHS, "sync"):
        setattr(os, name, _bound(counted, name, getattr(os, name)))
    builtins.open = io.open = _opening(open)


def read_journal(path: Path) -> list[Call]:
    """The calls in a journal, those that failed with the kind "failed"."""
    calls = []
    with open(path, "rb") as file:
        while file.peek(1):
            calls.append(pickle.load(file))
    return calls


def _bound(counted: Callable[..., Any], name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given, **named: counted(name, real, *given, **named)


def _opening(real: Callable[..., Any]) -> Callable[..., Any]:
    def opened(file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        is_read = not set(mode) & set("wax+")
        return (real if is_read else _pyio.open)(file, mode, *given, **named)

    return opened


def _name(folder: Path, given: Any, at: int | None = None) -> str | None:
    """The path of a file or descriptor from a folder on, "." for itself; None outside."""
    if isinstance(given, int):
        given = os.readlink(f"/proc/self/fd/{given}")
        if not given.startswith("/"):
            return None  # a pipe
    elif at is not None:
        given = os.path.join(os.readlink(f"/proc/self/fd/{at}"), given)
    found = os.path.relpath(os.fsdecode(given), folder)
    return None if found.split("/")[0] == ".." else found


def _makes(path: Any, flags: int, *_: Any) -> bool:
    """Whether a call of `open` makes a file, or empties one."""
    return bool(flags & MAKING) and (bool(flags & os.O_TRUNC) or not os.path.exists(path))


def _change(kind: str, given: tuple[Any, ...]) -> tuple[int, bytes]:
    """Place and bytes of a write, as they are before it."""
    if kind == "pwrite":
        return given[2], bytes(given[1])
    if kind == "write":
        is_at_end = fcntl.fcntl(given[0], fcntl.F_GETFL) & os.O_APPEND
        place = os.fstat(given[0]).st_size if is_at_end else os.lseek(given[0], 0, os.SEEK_CUR)
        return place, bytes(given[1])
    return 0, b""


def _done(call: Call, given: tuple[Any, ...], result: Any) -> Call:
    """What a call did: bytes that were written, the size that a file has now."""
    if call.kind in ("write", "pwrite"):
        return call._replace(kind="write", data=call.data[:result])
    if call.kind in ("ftruncate", "posix_fallocate"):
        return call._replace(kind="resize", place=os.fstat(given[0]).st_size)
    return call
