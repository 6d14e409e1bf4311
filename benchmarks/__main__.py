"""Run all benchmarks, or those named, and print one table: `python -m benchmarks [name ...]`."""

import importlib
import platform
import sys
from pathlib import Path

import torch

from benchmarks.common import Row
from pipeline.runtime.process import say, set_threads

NAMES = sorted(
    path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py")
)


def main(names: list[str]) -> int:
    """Print the table; exit code 1 when a target was missed, 2 for an unknown name."""
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        say(f"error: no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
        return 2
    set_threads(2)
    print(f"{platform.machine()}, 2 threads, Python {platform.python_version()}, "
          f"torch {torch.__version__}\n")  # fmt: skip
    rows: list[Row] = []
    for name in names or NAMES:
        say(f"{name} ...")
        rows += importlib.import_module(f"benchmarks.bench_{name}").rows()
    print("| work | measured | to reach | reached |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row.work} | {row.figure} | {row.target} | {'yes' if row.reached else 'no'} |")
    return 0 if all(row.reached for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
