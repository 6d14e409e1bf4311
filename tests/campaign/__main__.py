"""Run the campaign: `python -m tests.campaign --full`, or `--cases 10` of every section.

Every case is drawn from the seed, its section and its number alone: a fault comes with the command
that repeats it. Counts are kept in a file as
they grow, so that a run that was stopped goes on where it was. The table at the end names every
outcome; anything but those of `GOOD` is a fault, and the exit code is 1.
"""

import argparse
import itertools
import json
import math
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import stages  # noqa: F401 - chooses the kernels before numpy is loaded, as every stage does
from tests.campaign.parsers import PARSERS, Parsers
from tests.campaign.stages import Stages
from tests.campaign.world import World
from tests.layouts.judge import play
from tests.layouts.vectors import play_vectors
from tests.support.full_disk import small_disks

Case = Callable[[random.Random, int], str]
Counts = dict[str, dict[str, int]]

GOOD = (
    "refused",  # a plain message and exit code 1
    "unchanged",  # the same values were made
    "whole",  # read by a parser, or made with the right bytes
    "continued",  # to the same bytes
    "told to wait",  # one of two, and the bytes are right
    "both ended",  # with the right bytes
)
LAYOUTS, VECTORS = "layouts of folders", "files of vectors"
ON_DISK, DISK = "stages on full disks", Path("/mnt")
MOUNTED = "CAMPAIGN_DISK"  # set once the disk is there; a name with spaces would not pass a shell
ROUND = 5  # cases of each section, before the next has its turn
# How many cases a full run has of each section.
FULL = {name: parser.cases for name, parser in PARSERS.items()} | {
    LAYOUTS: 5_000,
    VECTORS: 5_000,
    "kills of stages": 1_000,
    "power cuts": 300,
    "calls that the system refuses": 300,
    ON_DISK: 320,
    "pairs of one stage": 60,
    "stages with exchanged files": 200,
    "stages with flipped bits": 3_000,
    "stages with files cut short": 500,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.campaign")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--cases", type=int, default=1000, help="of every section")
    sizes.add_argument("--full", action="store_true", help="all: about an hour")
    sizes.add_argument("--minutes", type=float, help="as many cases as begin within this time")
    sizes.add_argument("--case", type=int, help="this one alone, of the section of --only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", choices=FULL, help="a section, instead of all")
    parser.add_argument("--stage", action="append", default=[], help="the last one of the world")
    parser.add_argument("--counts", type=Path, default=Path("data/.work/campaign.json"))
    options = parser.parse_args()
    names = options.only or list(FULL)
    if options.case is not None and len(names) != 1:
        parser.error("--case needs one --only")
    if ON_DISK in names and not os.environ.get(MOUNTED):
        if small_disks():  # again, where disks may be mounted
            mounted = [
                "unshare",
                "-rm",
                "sh",
                "-c",
                f'mount -t tmpfs none {DISK} && exec "$@"',
                "sh",
            ]
            command = [*mounted, sys.executable, "-m", "tests.campaign", *sys.argv[1:]]
            return subprocess.run(command, env=os.environ | {MOUNTED: "1"}).returncode
        print(f"{ON_DISK}: left out, this user may not mount any", file=sys.stderr)
        names.remove(ON_DISK)
    cases = {name: FULL[name] if options.full else options.cases for name in names}
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as at:
        sections = sections_in(Path(at).resolve(), options.stage)
        if options.case is not None:
            outcome = one(
                sections[names[0]], f"{options.seed} {names[0]} {options.case}", options.case
            )
            print(f"{names[0]}, case {options.case}: {outcome}")
            return int(outcome not in GOOD)
        if options.minutes is not None:
            found = run_until(
                time.monotonic() + 60 * options.minutes,
                {name: sections[name] for name in names},
                options.seed,
                options.counts,
            )
        else:
            found = run(sections, cases, options.seed, options.counts)
    print("\n".join(table(found)))
    return int(bool(faults(found)))


def sections_in(folder: Path, last: list[str]) -> dict[str, Case]:
    """All sections by name, with scratch in a folder."""
    world = World(folder / "world", last)
    about, parsers = Stages(folder / "stage", world), Parsers(folder / "parsed")
    return {name: partial(parsers.case, name) for name in PARSERS} | {
        LAYOUTS: lambda draw, number: play(draw, folder / "layout")[0],
        VECTORS: lambda draw, number: play_vectors(draw, folder / "vectors")[0],
        "kills of stages": about.kill,
        "power cuts": about.power_cut,
        "calls that the system refuses": about.refused_call,
        ON_DISK: Stages(DISK / "stage", world).full_disk,
        "pairs of one stage": about.pair,
        "stages with exchanged files": about.exchanged,
        "stages with flipped bits": about.flipped,
        "stages with files cut short": about.cut,
    }


def run_until(end: float, sections: dict[str, Case], seed: int, kept: Path) -> Counts:
    """Outcomes by section, of rounds of ROUND cases of each until a moment of `time.monotonic`."""
    counts: Counts = {}
    for rounds in itertools.count(1):
        cases = {name: min(rounds * ROUND, FULL[name]) for name in sections}
        counts = run(sections, cases, seed, kept, end)
        if time.monotonic() > end or cases == {name: FULL[name] for name in sections}:
            return counts
    raise AssertionError("the rounds have no end")


def run(
    sections: dict[str, Case],
    cases: dict[str, int],
    seed: int,
    kept: Path,
    end: float = math.inf,
) -> Counts:
    """Outcomes by section, those of an earlier run with the same seed taken over from `kept`.

    end: moment of `time.monotonic` after which no case begins.
    """
    counts: Counts = {}
    if kept.is_file():
        earlier = json.loads(kept.read_text())
        counts = earlier["counts"] if earlier["seed"] == seed else {}
    kept.parent.mkdir(parents=True, exist_ok=True)
    for name, number_of_cases in cases.items():
        found = Counter(counts.get(name, {}))
        for number in range(found.total(), number_of_cases):
            if time.monotonic() > end:
                break
            outcome = one(sections[name], f"{seed} {name} {number}", number)
            if outcome not in GOOD:
                print(f"{name}, case {number}: {outcome}", file=sys.stderr)
                print(f"  {repeated(name, seed, number)}", file=sys.stderr, flush=True)
            found[outcome] += 1
            counts[name] = dict(found)
            if number % 20 == 0:
                kept.write_text(json.dumps({"seed": seed, "counts": counts}))
        kept.write_text(json.dumps({"seed": seed, "counts": counts}))
    return counts


def repeated(name: str, seed: int, number: int) -> str:
    """The command that plays one case again."""
    return f"python -m tests.campaign --seed {seed} --only {shlex.quote(name)} --case {number}"


def one(case: Case, name: str, number: int) -> str:
    """The outcome of one case. name: what it is drawn from."""
    try:
        return case(random.Random(name), number)
    except SystemExit as hung:  # a process that does not end
        sys.exit(f"seed, section and case {name}: {hung}")
    except Exception as error:  # what a user would see as a traceback
        return f"traceback: {type(error).__name__}, case {number}: {str(error)[:100]}"


def faults(counts: Counts) -> list[str]:
    return [word for found in counts.values() for word in found if word not in GOOD]


def table(counts: Counts) -> list[str]:
    lines = ["| section | cases | outcomes |", "|---|---:|---|"]
    for name, found in counts.items():
        told = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(found.items()))
        lines.append(f"| {name} | {sum(found.values()):,} | {told} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
