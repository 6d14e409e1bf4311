"""Child processes, which may be killed, forked from one that has computed nothing yet: that spares
each of them the import of torch. One that hangs ends the program with a line that names it."""

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import stages  # noqa: F401 - chooses the kernels before torch is loaded, as every stage does  # isort: skip

# imported with a process's first optimiser, two seconds that every child would spend
import torch._dynamo  # noqa: F401

from pipeline.runtime import files

LIMIT = 900.0  # seconds that a child may take; all models train in minutes on a busy machine


class Child:
    """A forked process that calls a function, and what it says."""

    def __init__(self, name: str, function: Callable[..., object], *arguments: object) -> None:
        self.name, self._said = name, tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        sys.stdout.flush()
        self._pid = os.fork()
        if self._pid == 0:
            os.dup2(self._said.fileno(), 1)
            os.dup2(self._said.fileno(), 2)
            os._exit(_called(function, *arguments))

    def end(self) -> tuple[int, str]:
        """Wait for the end: the exit code, negative for a signal, and what was said."""
        watched = os.pidfd_open(self._pid)
        is_over, _, _ = select.select([watched], [], [], LIMIT)
        os.close(watched)
        if not is_over:
            os.kill(self._pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        with self._said as file:
            file.seek(0)
            said = file.read().decode("utf-8", "replace")
        if not is_over:
            sys.exit(f"{self.name} hung: it had not ended after {LIMIT:.0f} seconds\n{said}")
        return code, said


def _called(function: Callable[..., object], *arguments: object) -> int:
    code: object = 0
    try:
        function(*arguments)
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


class Killer:
    """Ends its process with SIGKILL when the n-th event of a kind comes.

    point: a kind of event and a number from 1, such as "step 4"; "never" kills nothing.
    """

    def __init__(self, point: str) -> None:
        self.kind, _, number = point.rpartition(" ")
        self.left = int(number) if self.kind else 0

    def event(self, kind: str) -> None:
        if kind == self.kind:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def watch_files(self) -> None:
        """Let `publish` happen from now on whenever a file is about to get its name."""
        publish = files.publish

        def publish_or_die(finished: Path, target: Path) -> None:
            self.event("publish")
            publish(finished, target)

        files.publish = publish_or_die


def killed(point: str, function: Callable[..., object], *arguments: object) -> None:
    """Call a function, with a killer behind the arguments, in a child that it must kill."""
    code, said = Child(f"{arguments}", function, *arguments, Killer(point)).end()
    assert code == -signal.SIGKILL, (point, arguments, code, said)


def ended(function: Callable[..., object], *arguments: object) -> str:
    """Call a function, with a killer that does nothing, in a child; what it said by its end."""
    code, said = Child(f"{arguments}", function, *arguments, Killer("never")).end()
    assert code == 0, (arguments, code, said)
    return said


def run_script(name: str, folder: Path) -> None:
    """Run a file of this folder that forks, in a process without threads of its own."""
    here = Path(__file__).resolve().parent
    paths = os.pathsep.join([str(here), str(here.parents[1])])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, here / name, folder]
    subprocess.run(command, check=True, env=environment, timeout=4 * LIMIT)
