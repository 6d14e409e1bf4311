"""Run all benchmarks, or those named, and print one table: `python -m benchmarks [name ...]`.

`python -m benchmarks --page docs/benchmarks.md` writes it into that page, too, between two marks.
`BENCHMARKS_SMALL=1 python -m benchmarks` runs them in small: its figures mean nothing.
"""

import argparse
import importlib
import os
import sys
import time
from contextlib import nullcontext
from datetime import date
from pathlib import Path

from benchmarks.common import SMALL, Row, apart, machine, measured
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_text
from pipeline.runtime.lock import measuring_lock
from pipeline.runtime.process import say

NAMES = sorted(
    (path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py")),
    key=lambda name: (name == "commands", name),  # which takes longest
)
BEGIN, END = "<!-- written by python -m benchmarks --page -->\n", "<!-- end of what it writes -->\n"
HEAD = "| work | measured | to reach | reached |\n|---|---|---|---|\n"


def main(arguments: list[str]) -> int:
    """Print the table; exit code 1 when a target was missed, 2 for an unknown name or page. Beside
    another measurement it is refused."""
    parser = argparse.ArgumentParser("python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--page", type=Path)
    page, names = (options := parser.parse_args(arguments)).page, options.names or NAMES
    if page and (SMALL or not page.is_file() or not with_table(page.read_text("utf-8"), "")):
        say(f"error: {page} is no page with the marks {BEGIN.strip()} and {END.strip()}")
        return 2
    if unknown := sorted(set(names) - set(NAMES)):
        say(f"error: no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
        return 2
    for name in names:  # one that cannot be loaded ends this before an hour has passed
        importlib.import_module(f"benchmarks.bench_{name}")
    with nullcontext() if SMALL else measuring_lock():
        return run(names, page)


def run(names: list[str], page: Path | None) -> int:
    load, start = os.getloadavg()[0], time.monotonic()
    head = f"{apart(machine)}\n\n{HEAD}"
    print(head, end="", flush=True)
    rows: list[Row] = []
    for name in names:
        say(f"{name} ...")
        try:
            results = apart(measured, name)
        except Exception as error:  # an hour of the others is not lost for one
            if SMALL:
                raise
            results = [Row(name, f"failed: {type(error).__name__}: {error}", "<= 0 failures", 1)]
        rows += results
        print(*map(_line, results), sep="\n", flush=True)
    foot = _foot(rows, load, (time.monotonic() - start) / 60)
    print(foot)
    if page:
        table = head + "".join(f"{_line(row)}\n" for row in rows) + foot
        write_text(page, with_table(page.read_text("utf-8"), table))
    return 1 if any(row.reached is False for row in rows) and not SMALL else 0


def _line(row: Row) -> str:
    reached = {None: "", True: "yes", False: "no"}[row.reached]
    return f"| {row.work} | {row.figure} | {row.target} | {reached} |"


def _foot(rows: list[Row], load: float, minutes: float) -> str:
    text = f"\nRun in one go on {date.today()}, {minutes:.0f} minutes; load before it {load:.1f}.\n"
    missed = [row for row in rows if row.reached is False and row.profile]
    if missed:
        text += "\nWhere the time of rows below their target goes:\n"
    return text + "".join(f"\n- *{row.work}*: {row.profile}\n" for row in missed)


def with_table(page: str, table: str) -> str:
    """A page with a table between its marks instead of what is there; empty without the marks."""
    begin, end = page.find(BEGIN), page.find(END)
    return page[: begin + len(BEGIN)] + table + page[end:] if 0 <= begin < end else ""


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except WorkbenchError as error:
        sys.exit(f"error: {error}")
