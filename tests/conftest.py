"""Shared by all tests: the repository's root, and running a stage as a user would."""

import importlib
import math
import os

# Before numpy and torch are loaded: tests run side by side, and threads would fight for cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # a thread that waits leaves its core to others
os.environ.pop("CI", None)  # it makes progress quiet, which tests read

import shutil
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest
from browsers import browser_or_skip
from commands import run_command
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
# Without deadlines, since a busy machine is no wrong result. What passed passes again; new examples
# are looked for by: pytest --hypothesis-profile explore
settings.register_profile("repeat", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("explore", deadline=None)
settings.load_profile("repeat")
# files whose tests take longest, the longest first
LONGEST = ("test_graph.py", "test_extending.py", "test_campaign.py", "test_claims.py")
LONGEST += ("test_benchmarks.py", "test_sequences.py", "test_several_processes.py")
# The second of the epoch before which slow tests end, if none takes longer than on a slow machine.
UNTIL = float(os.environ.get("SLOW_UNTIL", "inf"))
SECONDS, SECONDS_OF_LONGEST = 60, 200


def pytest_collection_modifyitems(items):
    """The longest files first: of several workers none may be given one when all else is done.
    Where time is short, the others in an order that the commit draws, so that each has its turn."""
    order = {name: place for place, name in enumerate(LONGEST)}
    commit = None
    if not math.isinf(UNTIL):
        head = ["git", "rev-parse", "HEAD"]
        commit = subprocess.run(head, cwd=ROOT, capture_output=True, text=True).stdout

    def place(item):
        drawn = sha256(f"{commit}{item.path.name}".encode()).hexdigest() if commit else ""
        return order.get(item.path.name, len(order)), drawn

    items.sort(key=place)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Leave out slow tests that may not end before SLOW_UNTIL: .ci/run has twenty minutes."""
    seconds = SECONDS_OF_LONGEST if item.path.name in LONGEST else SECONDS
    if item.get_closest_marker("slow") and time.time() + seconds > UNTIL:
        pytest.skip("too little time is left for this slow test (SLOW_UNTIL)")


@pytest.fixture
def folder(world, tmp_path):
    """A copy of the folder that a module makes once."""
    return shutil.copytree(world, tmp_path, dirs_exist_ok=True)


@pytest.fixture
def run_stage():
    """Run the command of `stages.<name>` in this process, in a folder."""

    def run(name, *arguments, cwd, check=True):
        return checked(importlib.import_module(f"stages.{name}").main, arguments, cwd, check)

    return run


@pytest.fixture
def run_vse():
    """Run `vse` with words in this process, in a folder."""
    from vse_workbench.commands import vse  # fixes the kernels, which `make test-avx2` chooses

    return lambda *words, cwd, check=True: checked(vse, words, cwd, check)


@pytest.fixture(scope="module")
def browser():
    driver = browser_or_skip()
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


def checked(command, words, folder, check):
    done = run_command(command, *words, folder=folder)
    if check:
        assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def run_process():
    """Run `python -m stages.<name>` in a folder, where a process of its own is the point."""

    def run(name, *arguments, cwd, check=True):
        process = subprocess.run(
            [sys.executable, "-m", f"stages.{name}", *map(str, arguments)],
            cwd=cwd,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        if check:
            assert process.returncode == 0, process.stderr
        return process

    return run
