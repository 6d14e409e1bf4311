"""Run all benchmarks, or those named, and print one table: `python -m benchmarks [name ...]`.

Each row is printed as soon as it is measured. `python -m benchmarks --page docs/benchmarks.md` also
writes the table so far into that page after each row, between two marks, and beside the page the
samples behind every row, with the ending .tsv. Two are run by name alone: `gpu`, on a machine with
a GPU, which has marks and a file of samples of its own, and `beside`, which takes an hour.
`BENCHMARKS_SMALL=1 python -m benchmarks` runs all in small: its figures mean nothing.
"""

import argparse
import importlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import date
from pathlib import Path

import numpy as np
import torch

from benchmarks.common import SMALL, Row, apart, gpu_machine, machine, rows_apart
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_text
from pipeline.runtime.lock import measuring_lock
from pipeline.runtime.process import say

NAMES = sorted(
    (path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py")),
    key=lambda name: (name == "commands", name),  # which takes longest
)
GPU = "gpu"  # is run alone, where there is one
BY_NAME = (GPU, "beside")
BEGIN, END = "<!-- written by python -m benchmarks --page -->\n", "<!-- end of what it writes -->\n"
BEGIN_GPU = "<!-- written by python -m benchmarks gpu --page -->\n"
HEAD = "| work | measured | to reach | reached |\n|---|---|---|---|\n"
COLUMNS = ("work", "pair", "form", "clock_seconds", "processor_seconds")


def main(arguments: list[str]) -> int:
    """Print the table; exit code 1 when a target was missed, 2 for an unknown name or page. Beside
    another measurement it is refused."""
    parser = argparse.ArgumentParser("python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    page = options.page
    names = options.names or [name for name in NAMES if name not in BY_NAME]
    begin = BEGIN_GPU if names == [GPU] else BEGIN
    if page and (SMALL or not page.is_file() or not with_table(page.read_text("utf-8"), "", begin)):
        say(f"error: {page} is no page with the marks {begin.strip()} and {END.strip()}")
        return 2
    if unknown := sorted(set(names) - set(NAMES)):
        say(f"error: no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
        return 2
    if GPU in names and names != [GPU]:
        say("error: gpu is run alone: python -m benchmarks gpu")
        return 2
    if GPU in names and not SMALL and not torch.cuda.is_available():
        say("error: gpu: torch sees no CUDA device; BENCHMARKS_SMALL=1 runs it on the CPU")
        return 2
    for name in names:  # one that cannot be loaded ends this before an hour has passed
        importlib.import_module(f"benchmarks.bench_{name}")
    with nullcontext() if SMALL else measuring_lock():
        return run(names, page, begin)


def run(names: list[str], page: Path | None, begin: str) -> int:
    """Measure, print and write; returns the exit code.

    Args:
        names: Of the benchmarks.
        page: Where the table belongs; None for nowhere.
        begin: The mark that it follows there.
    """
    load = os.getloadavg()[0]
    start = time.monotonic()
    head = f"{apart(gpu_machine if names == [GPU] else machine)}\n\n{HEAD}"
    print(head, end="", flush=True)
    rows: list[Row] = []
    for name in names:
        say(f"{name} ...")
        for row in _rows_or_failure(name):
            rows.append(row)
            print(_line(row), flush=True)
            if page:
                _write(page, begin, head, rows, "\nUnfinished: rows are missing.\n")
    foot = _foot(rows, load, (time.monotonic() - start) / 60)
    print(foot)
    if page:
        _write(page, begin, head, rows, foot)
    return 1 if any(row.reached is False for row in rows) and not SMALL else 0


def _rows_or_failure(name: str) -> Iterator[Row]:
    """The rows of a benchmark; one that says why it failed, as an hour of the others is not lost
    for it."""
    try:
        yield from rows_apart(name)
    except Exception as error:
        if SMALL:
            raise
        yield Row(name, f"failed: {error}", "<= 0 failures", 1)


def _write(page: Path, begin: str, head: str, rows: list[Row], foot: str) -> None:
    table = head + "".join(f"{_line(row)}\n" for row in rows) + foot
    write_text(page, with_table(page.read_text("utf-8"), table, begin))
    part = "_gpu" if begin == BEGIN_GPU else ""
    write_text(page.with_name(f"{page.stem}{part}.tsv"), samples_tsv(rows))


def _line(row: Row) -> str:
    reached = {None: "", True: "yes", False: "no"}[row.reached]
    return f"| {row.work} | {row.figure} | {row.target} | {reached} |"


def samples_tsv(rows: list[Row]) -> str:
    """What was measured behind the rows: a line for each form of a comparison with the seconds of
    its runs, in the order in which they took turns. Of a row without comparisons the values."""
    lines = ["\t".join(COLUMNS)]
    for row in rows:
        for number, sample in enumerate(row.samples, 1):
            for form, costs in zip(
                ("ours", "reference"), zip(*sample.pairs, strict=True), strict=True
            ):
                clock = " ".join(f"{cost.wall:.4g}" for cost in costs)
                processor = " ".join(f"{cost.processor:.4g}" for cost in costs)
                lines.append("\t".join((row.work, str(number), form, clock, processor)))
        if not row.samples:
            values = " ".join(f"{value:.6g}" for value in np.atleast_1d(row.values))
            lines.append("\t".join((row.work, "", f"values {values}".rstrip(), "", "")))
    return "".join(f"{line}\n" for line in lines)


def _foot(rows: list[Row], load: float, minutes: float) -> str:
    text = f"\nRun in one go on {date.today()}, {minutes:.0f} minutes; load before it {load:.1f}.\n"
    missed = [row for row in rows if row.reached is False and row.profile]
    if missed:
        text += "\nWhere the time of rows below their target goes:\n"
    return text + "".join(f"\n- *{row.work}*: {row.profile}\n" for row in missed)


def with_table(page: str, table: str, begin: str = BEGIN) -> str:
    """A page with a table between its marks instead of what is there.

    Args:
        page: Its text.
        table: What belongs there.
        begin: The first mark; the second is the next END.

    Returns:
        The page; empty without the marks.
    """
    first = page.find(begin)
    end = page.find(END, max(first, 0))
    return page[: first + len(begin)] + table + page[end:] if 0 <= first < end else ""


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except WorkbenchError as error:
        sys.exit(f"error: {error}")
