"""How a process runs: its memory, the other processes of its training, progress."""

import ctypes
import gc
import getpass
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, ClassVar

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import safe_lines

if TYPE_CHECKING:
    import torch


# glibc's malloc.h: memory at the end of the heap that is handed back, and the size from which an
# allocation is a mapping of its own
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
# of torchrun, and of the process that has started others for itself (pipeline.training.launch)
RANK = "RANK"
TORCHRUN = "TORCHELASTIC_RUN_ID"
LAUNCHER = "WORKBENCH_LAUNCHER"
WATCH = 5.0  # seconds between two calls of what watches
QUIET = 300.0  # seconds between lines of progress where nobody watches
LARGE = 1 << 28  # bytes; the score matrices of large test splits, of which there are few
_shown = ContextVar("whether progress is shown", default=True)


def keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next tensor: it returns every block of 32 MB and
    more, and the kernel's zeros for the next batch take several times as long as writing it. Blocks
    of LARGE and more are still returned. Nothing is changed without glibc."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if set_option is not None:
        set_option(M_MMAP_THRESHOLD, LARGE)
        set_option(M_TRIM_THRESHOLD, 4 * LARGE)


def end_with_input() -> None:
    """End this process at once when its standard input ends, as it does with whoever started it.
    For processes of `pipeline.runtime.engines`, which would go on after a killed one."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def name_user() -> None:
    """Give this process and those it starts a user's name where the system has none, as for a user
    of a container without an entry in /etc/passwd: DVC does not work without."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["USER"] = f"user-{os.getuid()}"


def is_launched() -> bool:
    """Whether torchrun has started this process, with others or alone."""
    return TORCHRUN in os.environ and RANK in os.environ


def process_number() -> int:
    """Which of the processes of a training this is, 0 for the one that writes and speaks."""
    return int(os.environ[RANK]) if is_launched() else 0


def process_note() -> str:
    """In which process something went wrong, where it is not the one that speaks for all."""
    return f" in process {process_number()}" if process_number() else ""


def process_count() -> int:
    """How many processes torchrun has started, 1 where it has not."""
    return int(os.environ["WORLD_SIZE"]) if is_launched() else 1


def owns_work() -> bool:
    """Whether this process, of those of a training, locks what they write."""
    return process_number() == 0 and LAUNCHER not in os.environ


def require_semaphores(processes: str, way_out: str) -> None:
    """Raise WorkbenchError, before any is started, where processes could not work together.

    Args:
        processes: what they do, for the message.
        way_out: how to do without them.

    Raises:
        WorkbenchError: no semaphore can be made: Linux keeps them as files of /dev/shm, which may
            be read-only, full or missing in a container.
    """
    import multiprocessing

    try:
        multiprocessing.get_context().Lock()
    except OSError as error:
        raise WorkbenchError(
            f"/dev/shm cannot be written ({error.strerror}), which {processes} need", way_out
        ) from None


def set_device(device: "torch.device") -> None:
    """Take the GPU of this process; nothing on a CPU."""
    import torch

    if device.type == "cuda":
        rank = int(os.environ["LOCAL_RANK"])
        gpus = torch.cuda.device_count()
        if rank >= gpus:
            raise WorkbenchError(
                f"process {rank} of this machine has no GPU: there are {gpus}",
                "start as many processes as GPUs, or set runtime.device: cpu",
            )
        torch.cuda.set_device(rank)


class Progress:
    """A progress display: a bar on a terminal, else a plain line now and then.

    Args:
        title: what goes on, at the beginning of the line.
        total: units in all.
        unit: their name in the plural.
        done: units that are there already; they do not count for the speed.
        interval: seconds between two lines; QUIET at least where the environment variable CI is
            set.
    """

    # called now and then while something is counted, by the first process alone
    watches: ClassVar[list[Callable[[], None]]] = []

    def __init__(
        self, title: str, total: int, unit: str, done: int = 0, interval: float = 10.0
    ) -> None:
        self.title = title
        self.total = total
        self.unit = unit
        self.interval = interval
        self.count = self.start_count = done
        self.started = time.monotonic()
        # the first line comes after a second: it tells how long the rest will take
        self.last_line = self.started - max(0, interval - 1)
        self.last_watch = self.started
        self.note = ""
        self._bar = None
        if process_number() or not _shown.get():
            self.interval = float("inf")
        elif os.environ.get("CI"):
            self.interval = max(interval, QUIET)
        elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            from tqdm import tqdm

            self._bar = tqdm(
                total=total, initial=done, desc=title, unit=f" {unit}", dynamic_ncols=True
            )

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
        elif kind is None and self.count > self.start_count and self.interval < float("inf"):
            self._print()

    def update(self, units: int = 1, note: str = "") -> None:
        """Count more as done.

        Args:
            units: how many more.
            note: ends the line, such as a loss or the name of a file; "" keeps the last one.
        """
        self.count += units
        self.note = note or self.note
        if time.monotonic() - self.last_watch >= WATCH and not process_number():
            self.last_watch = time.monotonic()
            for watch in self.watches:
                watch()
        if self._bar is not None:
            self._bar.update(units)
            if note:
                self._bar.set_postfix_str(note)
        elif time.monotonic() - self.last_line >= self.interval:
            self._print()

    def _print(self) -> None:
        self.last_line = time.monotonic()
        rate = (self.count - self.start_count) / max(self.last_line - self.started, 1e-9)
        left = (self.total - self.count) / rate if rate > 0 else float("inf")
        ending = f"{duration(left)} left" if self.count < self.total else "done"
        note = f" · {self.note}" if self.note else ""
        print(
            f"{self.title}: {self.count:,}/{self.total:,} {self.unit}, {rate:,.1f} {self.unit}/s, "
            f"{ending}{note}",
            file=sys.stderr,
            flush=True,
        )


@contextmanager
def without_progress() -> Iterator[None]:
    """Show no progress of what runs inside: it is part of a quick answer."""
    before = _shown.set(False)
    try:
        yield
    finally:
        _shown.reset(before)


@contextmanager
def uncollected() -> Iterator[None]:
    """Search for no unreachable objects meanwhile: reading a dataset makes none, and going through
    all that has been read again and again takes up to half of the time of a large one."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def duration(seconds: float) -> str:
    """A time for people, in its two largest units: "45 s", "12 min 5 s", "4 d 5 h"."""
    if seconds == float("inf"):
        return "unknown time"
    rest = round(seconds)
    counts = {"d": rest // 86400, "h": rest // 3600 % 24, "min": rest // 60 % 60, "s": rest % 60}
    names = list(counts)
    first = next((n for n, name in enumerate(names) if counts[name]), len(names) - 1)
    shown = [name for n, name in enumerate(names[first : first + 2]) if counts[name] or n == 0]
    return " ".join(f"{counts[name]} {name}" for name in shown)


def print_json(value: object) -> None:
    """Print one line of JSON on standard output; NaN is a bug and raises ValueError."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False), flush=True)


def say(text: str) -> None:
    """Print one line for the person watching (standard error, so that output stays clean)."""
    if process_number() == 0:
        # `print` writes the line's end by itself: another thread's line could come in between.
        sys.stderr.write(safe_lines(text) + "\n")
        sys.stderr.flush()
