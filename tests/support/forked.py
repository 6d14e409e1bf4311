"""Child processes that may kill themselves, forked from one that has computed nothing yet, which
spares each of them the import of torch."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# imported with a process's first optimiser, two seconds that every child would spend
import torch._dynamo  # noqa: F401

from pipeline.runtime import files


class Killer:
    """Ends its process with SIGKILL when the n-th event of a kind comes.

    point: a kind of event and a number from 1, such as "step 4"; "never" kills nothing.
    """

    def __init__(self, point: str) -> None:
        self.kind, _, number = point.rpartition(" ")
        self.left = int(number) if self.kind else 0

    def event(self, kind: str) -> None:
        """Say that something is about to happen."""
        if kind == self.kind:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def in_child(function: Callable[..., object], *arguments: object) -> int:
    """Status of a forked process that calls a function."""
    pid = os.fork()
    if pid == 0:
        try:
            function(*arguments)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def killed(function: Callable[..., object], *arguments: object) -> None:
    """Call a function in a child that must die of SIGKILL."""
    status = in_child(function, *arguments)
    assert os.WIFSIGNALED(status), f"not killed, status {status}: {arguments}"
    assert os.WTERMSIG(status) == signal.SIGKILL


def ended(function: Callable[..., object], *arguments: object) -> None:
    """Call a function in a child that must come to its end."""
    assert in_child(function, *arguments) == 0, arguments


def into_log(killer: Killer, log: str = "log") -> None:
    """Print to a file from now on, and say `publish` to a killer before a file gets its name."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    publish = files.publish

    def publish_or_die(finished: Path, target: Path) -> None:
        killer.event("publish")
        publish(finished, target)

    files.publish = publish_or_die


def run_script(name: str, folder: Path) -> None:
    """Run a file of this folder that forks, in a process without threads of its own."""
    here = Path(__file__).resolve().parent
    paths = os.pathsep.join([str(here), str(here.parents[1])])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, here / name, folder], check=True, env=environment)
