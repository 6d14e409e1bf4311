"""The calls that change files as `calls.c` counts, refuses and records them; small disks."""

import ctypes
import mmap
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("calls.c")
WRITE, SYNC, RENAME, UNLINK, RESIZE, CREATE, MKDIR, RMDIR = range(1, 9)
ALL = "*"
HEAD = struct.Struct("=5q")
NEW_USERS, NEW_MOUNTS, READ_ONLY, REMOUNT = 0x10000000, 0x20000, 1, 32


class Call(NamedTuple):
    """A call that changed something."""

    kind: int
    path: str
    other: str
    place: int
    data: bytes

    @property
    def is_of_all(self) -> bool:
        """Whether it brings everything to the disk."""
        return self.path == ALL


def with_calls(arguments: Sequence[str]) -> None:
    """Begin this program again with the calls counted; returns where they are already.

    arguments: of the program.
    """
    if is_counting():
        return
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "calls.so"
        command = ["cc", "-shared", "-fPIC", "-O2", "-o", library, SOURCE, "-ldl"]
        subprocess.run(command, check=True)
        environment = os.environ | {"LD_PRELOAD": str(library)}
        again = [sys.executable, "-m", "tests.campaign", *arguments]
        sys.exit(subprocess.run(again, env=environment).returncode)


def is_counting() -> bool:
    """Whether the library is loaded."""
    return hasattr(ctypes.CDLL(None), "calls_arm")


class Calls:
    """Arms the library in a child, and says in the parent how many calls the child made."""

    def __init__(self) -> None:
        self._counter = ctypes.c_long.from_buffer(mmap.mmap(-1, ctypes.sizeof(ctypes.c_long)))
        self._arm = ctypes.CDLL(None).calls_arm

    @property
    def counted(self) -> int:
        """Calls since it was armed."""
        return self._counter.value

    def arm(
        self,
        folder: Path,
        kill: int = 0,
        is_torn: bool = False,
        fail: int = 0,
        error: int = 0,
        journal: int = -1,
    ) -> None:
        """Count calls below a folder from now on.

        kill: number of the call before which the process ends, from 1; 0 for none.
        """
        place = ctypes.byref(self._counter)
        numbers = (ctypes.c_long(kill), int(is_torn), ctypes.c_long(fail), error, journal)
        self._arm(os.fsencode(folder), place, *numbers)


def read_journal(content: bytes, folder: Path) -> Iterator[Call]:
    """The calls of a journal, their paths from a folder on."""
    at, start = 0, len(str(folder)) + 1
    while at < len(content):
        kind, *lengths, place, size = HEAD.unpack_from(content, at)
        at += HEAD.size
        names = []
        for length in lengths:
            name = content[at : at + length].decode()
            names.append(name[start:] if name else ALL)
            at += length
        data = b""
        if kind == WRITE:
            data = content[at : at + size]
            at += size
        yield Call(kind, names[0], names[1], place, data)


def aside(function: Callable[[], str]) -> str:
    """What a function returns in a child, or a word about its end."""
    heard, says = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(heard)
            told = function()
        except BaseException as error:
            told = f"traceback: {type(error).__name__}: {error}"
        os.write(says, told.encode()[:4000])
        os._exit(0)
    os.close(says)
    with open(heard, "rb") as pipe:
        told = pipe.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return told or f"exit code {status}"


def mount_disk(folder: Path, pages: int) -> None:
    """Give this process, a child without threads, a disk of its own on a folder.

    pages: of 4,096 bytes.
    """
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_USERS | NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"0 {user} 1"),
        ("gid_map", f"0 {group} 1"),
    ):
        Path("/proc/self", name).write_text(text)
    _mount(folder, 0, f"size={pages * 4096}")


def change_disk(folder: Path, pages: int, is_read_only: bool = False) -> None:
    """Give a mounted disk another size, or forbid writing to it."""
    _mount(folder, REMOUNT | (READ_ONLY if is_read_only else 0), f"size={pages * 4096}")


def _mount(folder: Path, flags: int, data: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(flags), data.encode()):
        raise OSError(ctypes.get_errno(), "mount", str(folder))
