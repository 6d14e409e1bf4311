"""Tests on a copy of the tree, in processes forked from one that has loaded the libraries.

What a mutant breaks stays in its copy. Which tests call which functions is recorded once for each
package, so that a mutant meets those first that run the broken line.
"""

import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

FIRST_PARTY = ("pipeline", "models", "stages", "tests", "vse_workbench", "conftest")
MEMORY = 16 << 30  # bytes of addresses that the tests of a mutant may take
CHILDREN = ".children"  # of a file, while tests are recorded
Calls = dict[str, list[str]]  # "file:first line" of a function -> tests that call it


def copy_tree(root: Path, target: Path) -> None:
    """All files that git tracks or would, and what they were compiled to."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    named = subprocess.run(listed, cwd=root, capture_output=True, check=True).stdout
    for name in named.decode().split("\0"):
        if (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name, follow_symlinks=False)


def forked(tree: Path, function: Callable[[], int], limit: float) -> tuple[int, str]:
    """Call a function in a child whose folder and modules are those of a tree.

    Args:
        tree: the copy.
        function: returns an exit code.
        limit: seconds until the child is killed with all that it started.

    Returns:
        The exit code, negative for a signal, and the end of what was said.
    """
    with tempfile.TemporaryFile() as said:
        pid = os.fork()
        if pid == 0:
            _begin(tree, said.fileno())
            os._exit(_code_of(function))
        watched = os.pidfd_open(pid)
        select.select([watched], [], [], limit)
        os.close(watched)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what the tests left running, too
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said.seek(0)
        return code, said.read().decode("utf-8", "replace")[-6000:]


def _begin(tree: Path, said: int) -> None:
    os.setsid()
    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # pytest may have put others there
    os.chdir(tree)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in list(sys.modules):
        if name.split(".")[0] in FIRST_PARTY:
            del sys.modules[name]
    sys.path[:] = [str(tree), *(path for path in sys.path if path not in ("", os.getcwd()))]
    os.environ["PYTHONPATH"] = str(tree)


def _code_of(function: Callable[[], int]) -> int:
    try:
        return int(function())
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 3
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


class Chosen:
    """A plug-in of pytest: chosen tests alone, none longer than a limit; says which one failed."""

    def __init__(self, tests: Iterable[str] | None, without: Iterable[str], limit: int) -> None:
        self.tests = None if tests is None else set(tests)
        self.without = set(without)
        self.limit = limit

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        kept = [
            item
            for item in items
            if item.nodeid not in self.without
            and (self.tests is None or item.nodeid in self.tests)
            and item.get_closest_marker("slow") is None
        ]
        items[:] = kept

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: Any) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(self.limit)  # ends the process: a test that hangs has noticed

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            print(f"\nFAILED BY {report.nodeid}", flush=True)


class Recorder:
    """A plug-in of pytest that records which tests call which functions of some files, in processes
    that they fork, too, which append theirs to a file."""

    def __init__(self, tree: Path, folders: Iterable[str], of_children: Path) -> None:
        self.process = os.getpid()
        self.of_children = of_children
        self.tree = f"{tree}/"
        self.prefixes = tuple(f"{tree}/{folder}" for folder in folders)
        self.calls: dict[str, set[str]] = {}
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.test = ""

    def traced(self, frame: Any, event: str, value: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(self.prefixes):
            name = f"{code.co_filename.removeprefix(self.tree)}:{code.co_firstlineno}"
            tests = self.calls.setdefault(name, set())
            if self.test not in tests:
                tests.add(self.test)
                if os.getpid() != self.process:
                    with self.of_children.open("a") as file:
                        file.write(f"{name}\t{self.test}\n")

    def read_children(self) -> None:
        """Add what the processes have recorded that tests forked."""
        text = self.of_children.read_text() if self.of_children.is_file() else ""
        for line in text.splitlines():
            name, _, test = line.partition("\t")
            self.calls.setdefault(name, set()).add(test)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        self.test = item.nodeid
        begun = time.monotonic()
        sys.settrace(self.traced)
        threading.settrace(self.traced)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self.seconds[item.nodeid] = time.monotonic() - begun

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid)


def record(tree: Path, folders: list[str], tests: list[str], kept: Path) -> dict[str, Any]:
    """Run tests on the unbroken tree; what they call is read from `kept` if it is there.

    Args:
        tree: the copy.
        folders: whose functions are of interest, relative to the tree.
        tests: files and folders of tests, relative to the tree.
        kept: JSON file.

    Returns:
        calls: tests by "file:first line" of the function; seconds: by test; failed: tests that
        fail without any change, which say nothing of a mutant.
    """
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.with_suffix(CHILDREN).unlink(missing_ok=True)

        def run() -> int:
            recorder = Recorder(tree, folders, kept.with_suffix(CHILDREN))
            chosen = Chosen(tests=None, without=(), limit=600)
            code = pytest.main([*PLAIN, *tests], plugins=[recorder, chosen])
            recorder.read_children()
            recorder.of_children.unlink(missing_ok=True)
            calls = {name: sorted(own) for name, own in recorder.calls.items()}
            found = {"calls": calls, "seconds": recorder.seconds, "failed": [*recorder.failed]}
            kept.write_text(json.dumps(found))
            return int(code)

        code, said = forked(tree, run, limit=3600)
        if code not in (0, 1):
            sys.exit(f"the unbroken tree: exit code {code}\n{said}")
    return json.loads(kept.read_text())


PLAIN = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short"]


def noticed(
    tree: Path, files: list[str], tests: list[str] | None, without: list[str], limit: int
) -> str:
    """Run tests until one fails.

    Args:
        tree: the copy, with a change.
        files: files and folders of tests, in the order in which they run.
        tests: chosen tests in them; None for all.
        without: tests that are left out.
        limit: seconds for one test.

    Returns:
        The test that failed, or how the run ended; "" where all passed.
    """

    def run() -> int:
        chosen = Chosen(tests, without, limit)
        return int(pytest.main(["-x", *PLAIN, *files], plugins=[chosen]))

    code, said = forked(tree, run, limit=1800)
    if code in (0, 5):
        return ""
    marks = [line for line in said.splitlines() if line.startswith("FAILED BY ")]
    if marks:
        return marks[0].removeprefix("FAILED BY ")
    words = {-signal.SIGALRM: "a test that takes too long", -signal.SIGKILL: "the limit of time"}
    return words.get(code, f"exit code {code}")
