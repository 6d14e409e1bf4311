"""Run the campaign: `python -m tests.campaign --cases 1000`.

Every case is drawn from the seed, its section and its number alone. Counts are kept in a file after
every hundred cases, so that a run that was stopped goes on where it was. The table at the end names
every outcome; anything but those of `cases.GOOD` is a fault, and the exit code is 1.
"""

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.campaign.cases import GOOD, Campaign

Counts = dict[str, dict[str, int]]


def main() -> int:
    """Run what is missing, print the table, and say whether anything failed."""
    parser = argparse.ArgumentParser(prog="tests.campaign")
    parser.add_argument("--cases", type=int, default=1000, help="of every section")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="a section, instead of all")
    parser.add_argument("--counts", type=Path, default=Path("data/.work/campaign.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as at:
        counts = run(Campaign(Path(at) / "case"), options.cases, options.seed, options.counts,
                     options.only)  # fmt: skip
    print("\n".join(table(counts)))
    return int(any(outcome not in GOOD for found in counts.values() for outcome in found))


def run(
    campaign: Campaign, cases: int, seed: int, kept: Path | None, only: list[str] | None = None
) -> Counts:
    """Outcomes by section, those of an earlier run with the same seed taken over from `kept`."""
    counts: Counts = {}
    if kept and kept.is_file():
        earlier = json.loads(kept.read_text())
        counts = earlier["counts"] if earlier["seed"] == seed else {}
    for name, section in campaign.sections.items():
        if only and name not in only:
            continue
        found = Counter(counts.get(name, {}))
        for number in range(found.total(), cases):
            try:
                found[section(random.Random(f"{seed} {name} {number}"))] += 1
            except Exception as error:  # what a user would see as a traceback
                found[f"traceback: {type(error).__name__}, case {number}"] += 1
            counts[name] = dict(found)
            if kept and (number % 100 == 99 or number == cases - 1):
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps({"seed": seed, "counts": counts}))
    return counts


def table(counts: Counts) -> list[str]:
    """Lines of a markdown table."""
    lines = ["| section | cases | outcomes |", "|---|---:|---|"]
    for name, found in counts.items():
        told = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(found.items()))
        lines.append(f"| {name} | {sum(found.values()):,} | {told} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
