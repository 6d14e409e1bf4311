"""Whole commands as a user types them: the first result, the default run, the tests, the server.

They run in a fresh clone of this repository's last commit, with the packages of this environment,
and take most of an hour on two cores. `dvc repro` says when each of its stages begins: a stage's
time is that from its line to the next.
"""

import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from benchmarks import serving
from benchmarks.common import Row
from pipeline.runtime.process import say

ROOT = Path(__file__).resolve().parents[1]
STAGE = re.compile(r"Running stage '(.+)':")
LONGEST = 12  # that are named
FIRST, WHOLE, TESTS = 180, 300, 360  # seconds to be reached


def rows() -> list[Row]:
    """The table's rows: the first result, all of `dvc repro`, the server on it, `make test`."""
    with TemporaryDirectory() as name:
        clone = Path(name) / "clone"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        first = repro(clone, "evaluate@vse")
        rest = repro(clone)
        whole = {stage: first[stage] + rest[stage] for stage in ("wall", "processor")}
        stages = first["stages"] | rest["stages"]
        found = [
            command_row("`dvc repro evaluate@vse` in a fresh clone", first, first["stages"], FIRST),
            command_row(f"the whole `dvc repro`, {len(stages)} stages", whole, stages, WHOLE),
            *serving.rows(clone),
        ]
    return [*found, tests()]


def repro(clone: Path, *target: str) -> dict:
    """Seconds on the clock and of processors, and by stage, of `dvc repro` in a clone."""
    command = [sys.executable, "-m", "dvc", "repro", *target]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "DVC_NO_ANALYTICS": "1"}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    began: dict[str, float] = {}
    with subprocess.Popen(command, cwd=clone, env=env, text=True, **streams) as running:
        assert running.stdout
        for line in running.stdout:
            if stage := STAGE.match(line):
                began[stage[1]] = time.monotonic()
                say(f"commands: {stage[1]}")
    end = time.monotonic()
    if running.returncode:
        raise RuntimeError(f"dvc repro {' '.join(target)} failed in {clone}")
    marks = [*began.values(), end]
    return {
        "wall": end - start,
        "processor": _processor(before),
        "stages": {name: marks[n + 1] - marks[n] for n, name in enumerate(began)},
    }


def tests() -> Row:
    """`make test` here, whose packages are installed; its longest files."""
    with TemporaryDirectory() as name:
        report = Path(name) / "tests.xml"
        command = [sys.executable, "-m", "pytest", "-q", "--numprocesses", "auto",
                   "--dist", "loadfile", "--no-loadscope-reorder",
                   f"--junit-xml={report}"]  # fmt: skip
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        took = {"wall": time.monotonic() - start, "processor": _processor(before)}
        files: dict[str, float] = {}
        for case in ElementTree.parse(report).iter("testcase"):
            file = case.get("classname", "").removeprefix("tests.").replace(".", "/")
            files[file] = files.get(file, 0) + float(case.get("time", 0))
    said = done.stdout.strip().splitlines()[-1]
    return command_row(f"`make test`, its packages installed ({said})", took, files, TESTS)


def command_row(work: str, took: dict, parts: dict[str, float], target: int) -> Row:
    """A row of a command, with its longest parts as the profile."""
    longest = sorted(parts.items(), key=lambda part: -part[1])
    rest = sum(seconds for _, seconds in longest[LONGEST:])
    named = ", ".join(f"{name} {seconds:.0f}" for name, seconds in longest[:LONGEST])
    return Row(
        work,
        f"{_minutes(took['wall'])}, {_minutes(took['processor'])} of processor time",
        f"<= {_minutes(target)}",
        took["wall"] <= target,
        profile=f"seconds: {named}, {len(longest[LONGEST:])} others {rest:.0f}",
    )


def _processor(before: resource.struct_rusage) -> float:
    """Seconds of processor time of ended children since `before`."""
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
