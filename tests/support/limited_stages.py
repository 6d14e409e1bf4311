"""Stages under a limit, run by a process that computes nothing itself: what it forks has no thread
of OpenMP that the fork would leave waiting for ever. `clean_process` gives that process."""

import os
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from forked import Child

from pipeline.corpus.images import check_image
from pipeline.runtime.errors import WorkbenchError
from tests.campaign.world import Ended, Stage, World, files_of, outputs_of, put, run

worlds: list[World] = []  # the only one of this process
# a user without an entry in /etc/passwd, whom the folder belongs to
NOBODY = 54321
# It says so itself and ends the process with exit code 1, below Python.
OPENBLAS = "OpenBLAS error: Memory allocation still failed"


def clean_process(folder: Path, last: list[str]) -> ProcessPoolExecutor:
    """A process with a world in a folder, for the functions below."""
    return ProcessPoolExecutor(
        max_workers=1, mp_context=get_context("spawn"), initializer=begin, initargs=(folder, last)
    )


def begin(folder: Path, last: list[str]) -> None:
    worlds.append(World(folder, last))


def prepare(name: str, folder: Path) -> Stage:
    """A stage, with all that it reads in a folder."""
    stage = worlds[0].stages[name]
    put(folder, worlds[0].before(stage))
    return stage


def has_made_all(stage: Stage, folder: Path) -> bool:
    """Whether a folder has the outputs that the stage makes without limits."""
    return outputs_of(stage, files_of(folder)) == worlds[0].after(stage)


def tried(name: str, folder: Path, first: Callable[[], object]) -> tuple[Ended, bool]:
    """How a stage ended under a limit, which must be whole or refused. Whether it was whole."""
    stage = prepare(name, folder)
    done = run(stage, folder, lambda: (speak_past_pytest(), first()))
    if done.code == 0:
        assert has_made_all(stage, folder), f"{name}: other outputs than without a limit"
    else:
        assert done.is_refusal or OPENBLAS in done.said, done.said
        made = outputs_of(stage, files_of(folder))
        assert not made, f"{name}: failed, and left {sorted(made)}"
    return done, done.code == 0


def speak_past_pytest() -> None:
    """A forked process has other streams in the place of its files 1 and 2."""
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)


def limit_memory(megabytes: int) -> None:
    """Give this process so much more memory than it has addresses of now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def limit_files(number: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))


def become_nobody(folder: Path) -> None:
    """Become a user that the system has no entry of, and own a folder."""
    for place in [folder, *folder.rglob("*")]:
        os.chown(place, NOBODY, NOBODY)
    for variable in ("HOME", "USER", "LOGNAME", "LNAME", "USERNAME"):
        os.environ.pop(variable, None)
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def check_image_in_short_memory(path: Path) -> int:
    """The exit code of a process in which memory runs out while it decodes an image."""

    def check() -> None:
        limit_memory(8)
        with pytest.raises(WorkbenchError, match="memory ran out while it was decoded"):
            check_image(str(path), max_pixels=None)

    return Child("image", check).end()[0]
