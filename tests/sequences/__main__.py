"""Play sequences: `python -m tests.sequences --seed 1 --count 200`; one of them: `--only 37`.

What became of each is appended to a file as soon as it has ended; a run with the same seed goes on
behind those that are there. The table at the end counts the outcomes; anything but those of `GOOD`
is a fault, and the exit code is 1.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.sequences.clones import Clones
from tests.sequences.machine import PLENTY, Play, SequenceMachine, draw
from tests.sequences.midway import MidwayMachine
from tests.support.full_disk import small_disks
from tests.support.warm_python import warm_python

GOOD = ("equal", "refused, as in a fresh clone, then equal")
DISK, MOUNTED = Path("/mnt"), "SEQUENCES_DISK"  # set once the disk is there
WORK = Path("data/.work")
PYTHON = Path(__file__).with_name("python.py")


def main() -> int:
    """Play the sequences that the command line asks for."""
    parser = argparse.ArgumentParser(prog="tests.sequences")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200, help="of sequences")
    parser.add_argument("--only", type=int, help="the number of one, instead of all")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="none begins later")
    parser.add_argument("--midway", action="store_true", help="with edits while stages run")
    parser.add_argument("--results", type=Path, help="default: sequences.jsonl or midway.jsonl")
    parser.add_argument("--memory", type=Path, default=WORK / "sequences", help="of fresh clones")
    options = parser.parse_args()
    if options.results is None:
        options.results = WORK / f"{'midway' if options.midway else 'sequences'}.jsonl"
    if not os.environ.get(MOUNTED) and small_disks():  # again, where a disk may be mounted
        mount = f'mount -t tmpfs -o size={PLENTY} none {DISK} && exec "$@"'
        command = ["unshare", "-rm", "sh", "-c", mount, "sh", sys.executable]
        command += ["-m", "tests.sequences", *sys.argv[1:]]
        return subprocess.run(command, env=os.environ | {MOUNTED: "1"}).returncode
    disk = DISK if os.environ.get(MOUNTED) else None
    if disk is None:
        print("steps of full disks are left out: this user may not mount any", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=disk) as at:
        found = run(Path(at).resolve(), disk, options)
    print("\n".join(table(found)))
    for number, outcome in sorted(found.items()):
        if outcome not in GOOD:
            kind = " --midway" if options.midway else ""
            command = f"python -m tests.sequences{kind} --seed {options.seed} --only {number}"
            print(f"{command}: {outcome}")
    return int(any(outcome not in GOOD for outcome in found.values()))


def run(at: Path, disk: Path | None, options: argparse.Namespace) -> dict[int, str]:
    """Outcomes by number, with those of an earlier run."""
    results, until = options.results, time.monotonic() + 60 * options.minutes
    results.parent.mkdir(parents=True, exist_ok=True)
    found = {}
    if results.is_file() and options.only is None:
        rows = map(json.loads, results.read_text().splitlines())
        found = {row["number"]: row["outcome"] for row in rows if row["seed"] == options.seed}

    def report(number: int, steps: list[str], outcome: str) -> None:
        found[number] = outcome
        row = {"seed": options.seed, "number": number, "outcome": outcome, "steps": steps}
        with open(results, "a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"sequence {number}: {outcome}", file=sys.stderr, flush=True)
        if options.only is not None:
            print("\n".join(steps))

    machine = MidwayMachine if options.midway else SequenceMachine
    numbers = range(options.count) if options.only is None else [options.only]
    left = [number for number in numbers if number not in found]
    with warm_python(at / "python", PYTHON) as python:
        shared = Play(Clones(at / "clones", python, options.memory.resolve()), disk, report)
        for number in left:
            if time.monotonic() < until:
                draw(options.seed, number, machine, shared)
    return found


def table(found: dict[int, str]) -> list[str]:
    """Outcomes and how many sequences had each."""
    counts = Counter(outcome if outcome in GOOD else "fault" for outcome in found.values())
    return ["| outcome | sequences |", "|---|--:|"] + [
        f"| {outcome} | {number} |" for outcome, number in sorted(counts.items())
    ]


if __name__ == "__main__":
    sys.exit(main())
