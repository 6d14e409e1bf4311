"""Run the campaign: `python -m tests.campaign --full`, or `--cases 10` of every section.

Every case is drawn from the seed, its section and its number alone. Counts are kept in a file as
they grow, so that a run that was stopped goes on where it was. The table at the end names every
outcome; anything but those of `GOOD` is a fault, and the exit code is 1.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import stages  # noqa: F401 - chooses the kernels before numpy is loaded, as every stage does
from tests.campaign.calls import with_calls
from tests.campaign.sections import FULL, GOOD, Sections

Counts = dict[str, dict[str, int]]
SECONDS = 10.0  # between two writes of the counts


def main() -> int:
    """Run what is missing, print the table, and say whether anything failed."""
    parser = argparse.ArgumentParser(prog="tests.campaign")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--cases", type=int, default=1000, help="of every section")
    sizes.add_argument("--full", action="store_true", help="as many as docs/notes/campaign.md says")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="a section, instead of all")
    parser.add_argument("--stage", action="append", default=[], help="the last one of the world")
    parser.add_argument("--counts", type=Path, default=Path("data/.work/campaign.json"))
    options = parser.parse_args()
    with_calls(sys.argv[1:])
    os.environ.pop("LD_PRELOAD")  # other programs are not counted
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as at:
        names = options.only or list(FULL)
        cases = {name: FULL[name] if options.full else options.cases for name in names}
        found = run(
            Sections(Path(at).resolve(), options.stage), cases, options.seed, options.counts
        )
    print("\n".join(table(found)))
    return int(bool(faults(found)))


def run(sections: Sections, cases: dict[str, int], seed: int, kept: Path | None) -> Counts:
    """Outcomes by section, those of an earlier run with the same seed taken over from `kept`."""
    counts: Counts = {}
    if kept and kept.is_file():
        earlier = json.loads(kept.read_text())
        counts = earlier["counts"] if earlier["seed"] == seed else {}
    for name, number_of_cases in cases.items():
        found, written = Counter(counts.get(name, {})), time.monotonic()
        for number in range(found.total(), number_of_cases):
            outcome = one(sections, name, seed, number)
            if outcome not in GOOD:
                print(f"{name}, case {number}: {outcome}", file=sys.stderr, flush=True)
            found[outcome] += 1
            counts[name] = dict(found)
            is_due = time.monotonic() - written > SECONDS or number == number_of_cases - 1
            if kept and is_due:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps({"seed": seed, "counts": counts}))
                written = time.monotonic()
    return counts


def one(sections: Sections, name: str, seed: int, number: int) -> str:
    """The outcome of one case."""
    case = sections[name]
    try:
        return case(random.Random(f"{seed} {name} {number}"), number)
    except Exception as error:  # what a user would see as a traceback
        return f"traceback: {type(error).__name__}, case {number}: {str(error)[:100]}"


def faults(counts: Counts) -> list[str]:
    """Outcomes that must not be."""
    return [word for found in counts.values() for word in found if word not in GOOD]


def table(counts: Counts) -> list[str]:
    """Lines of a markdown table."""
    lines = ["| section | cases | outcomes |", "|---|---:|---|"]
    for name, found in counts.items():
        told = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(found.items()))
        lines.append(f"| {name} | {sum(found.values()):,} | {told} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
