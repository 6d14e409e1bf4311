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
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pandas as pd

from benchmarks.common import ROOT, SMALL, Cost, Row, new_folder, size
from pipeline.runtime.process import duration, say

STAGE = re.compile(r"Running stage '(.+)':")
TEST = re.compile(r"([\d.]+)s \w+ +tests/(.+)\.py")
FIRST, WHOLE = size((["evaluate@vse"], []), (["check_params"], ["check_params"]))
ALL_TESTS = size("", "tests/pipeline/runtime/test_yaml_text.py")
LONGEST = 12  # that are named
CLIENTS, REQUESTS = 50, 2000
MODEL = "vse"
Lines = list[tuple[float, str]]  # that were printed, each with the second at which it came


def rows() -> Iterator[Row]:
    with new_folder() as folder:
        clone = folder / "clone"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        repro = sys.executable, "-m", "dvc", "repro"
        first, lines = run(clone, *repro, *FIRST)
        parts = stages(first, lines)
        yield command_row("`dvc repro evaluate@vse` in a fresh clone", first, parts, 3)
        rest, lines = run(clone, *repro, *WHOLE)
        parts |= stages(rest, lines)
        both = Cost(*map(sum, zip(first, rest, strict=True)))
        yield command_row(f"the whole `dvc repro`, {len(parts)} stages", both, parts, 5)
        if not SMALL:  # nothing is trained
            yield server(clone)
    options = f"--durations=0 {ALL_TESTS}"
    # -o: the packages are those of the environment that runs this
    took, lines = run(ROOT, "make", "-o", ".venv/.installed", "test", PYTEST_ADDOPTS=options)
    parts = Counter()
    for _, line in lines:
        if match := TEST.match(line):
            parts[match[2]] += float(match[1])
    work = f"`make test`, its packages installed ({lines[-1][1].strip('= ')})"
    yield command_row(work, took, parts, 6)


def run(folder: Path, *command: str | Path, **environment: str) -> tuple[Cost, Lines]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "DVC_NO_ANALYTICS": "1"} | environment
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    before, start = _of_children(), time.monotonic()
    lines = []
    with subprocess.Popen(command, cwd=folder, env=env, text=True, **streams) as running:
        for line in running.stdout:
            lines.append((time.monotonic() - start, line.strip()))
            if STAGE.match(line):
                say(f"commands: {line.strip()}")
    took = Cost(time.monotonic() - start, _of_children() - before)
    if running.returncode:
        raise RuntimeError(f"{command} failed in {folder}: {lines[-20:]}")
    return took, lines


def stages(took: Cost, lines: Lines) -> dict[str, float]:
    began = [(when, match[1]) for when, line in lines if (match := STAGE.match(line))]
    ends = [*(when for when, _ in began), took.wall][1:]
    return {name: end - when for (when, name), end in zip(began, ends, strict=True)}


def command_row(work: str, took: Cost, parts: dict[str, float], minutes: int) -> Row:
    longest = sorted(parts.items(), key=lambda part: -part[1])
    rest = sum(seconds for _, seconds in longest[LONGEST:])
    named = ", ".join(f"{name} {seconds:.0f}" for name, seconds in longest[:LONGEST])
    figure = f"{duration(took.wall)}, {duration(took.processor)} of processor time"
    profile = f"seconds: {named}, {len(longest[LONGEST:])} others {rest:.0f}"
    return Row(work, figure, f"<= {minutes} min", took.wall / 60, profile=profile)


def server(folder: Path) -> Row:
    """The search server under fifty clients, on what `dvc repro` left in a folder."""
    command = [sys.executable, "-m", "vse_workbench", "serve", MODEL, "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as serving:
        try:
            addresses = (re.findall(r"http://(\S+)/", line) for line in serving.stderr)
            return asked(next(filter(None, addresses))[0], folder)
        finally:
            serving.terminate()


def asked(host: str, folder: Path) -> Row:
    """One request in ten is an image, one a thumbnail, the others are texts of captions."""
    texts = pd.read_parquet(folder / "data/corpus/captions.parquet")["text"].tolist()
    images = pd.read_parquet(folder / "data/corpus/images.parquet")
    data = (folder / images["path"][0]).read_bytes()

    def request(number: int) -> tuple[int, float]:
        text, image = texts[number % len(texts)], images["image_id"][number % len(images)]
        search = f"/api/search?{urlencode({'model': MODEL})}"
        by_text = "GET", f"{search}&{urlencode({'text': text})}"
        thumbnail = "GET", f"/images?{urlencode({'id': image})}"
        others = {0: ("POST", search, data), 1: thumbnail}
        began = time.perf_counter()
        connection = HTTPConnection(host)
        connection.request(*others.get(number % 10, by_text))
        answer = connection.getresponse()
        answer.read()
        return answer.status, time.perf_counter() - began

    request(0)  # loads the network behind the features
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = list(pool.map(request, range(REQUESTS)))
    rate = REQUESTS / (time.perf_counter() - began)
    errors = sum(status != 200 for status, _ in answers)
    middle, late = np.percentile([1000 * seconds for _, seconds in answers], [50, 99])
    return Row(
        f"search server, {CLIENTS} clients, {REQUESTS:,} requests, an image in ten",
        f"{errors} errors, median {middle:.0f} ms, p99 {late:.0f} ms, {rate:.0f}/s",
        "< 1 error",
        errors,
    )


def _of_children() -> float:
    """Processor seconds of the processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
