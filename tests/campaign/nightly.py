"""A night: `python -m tests.campaign.nightly --minutes 60`, cases and sequences of a new seed.

The seed is the date. A third of the time goes to the cases of the campaign, the rest to
sequences. What was tried becomes a row of the table at the end of `PAGE`. The commands that repeat
what failed are printed; the exit code is 1 if there are any.
"""

import argparse
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.campaign.__main__ import GOOD, Counts
from tests.sequences.__main__ import GOOD as GOOD_SEQUENCES
from tests.support.clone import ROOT

PAGE = ROOT / "docs/notes/campaign.md"
HEAD = "| seed | commit | minutes | cases | sequences | faults |"
SHARE = 1 / 3  # of the time, for the campaign


def main() -> int:
    """Try for a time, and write down what was tried."""
    parser = argparse.ArgumentParser(prog="tests.campaign.nightly")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(f"{datetime.now(UTC):%Y%m%d}"))
    parser.add_argument("--work", type=Path, default=ROOT / "data/.work/nights")
    options = parser.parse_args()
    counts = options.work / f"{options.seed}.json"
    results = options.work / f"{options.seed}.jsonl"
    seed, minutes = ["--seed", str(options.seed)], options.minutes
    python = [sys.executable, "-m"]
    campaign = [*python, "tests.campaign", *seed, "--counts", str(counts)]
    sequences = [*python, "tests.sequences", *seed, "--results", str(results)]
    codes = [
        subprocess.run([*campaign, "--minutes", str(minutes * SHARE)], cwd=ROOT).returncode,
        subprocess.run([*sequences, "--minutes", str(minutes * (1 - SHARE))], cwd=ROOT).returncode,
    ]
    row = night(options.seed, minutes, counts, results)
    PAGE.write_text(with_row(PAGE.read_text(), row))
    print(f"{PAGE.relative_to(ROOT)}: {row}")
    return int(any(codes))


def night(seed: int, minutes: float, counts: Path, results: Path) -> str:
    """The row of a night.

    Args:
        seed: Of all that was drawn.
        minutes: That it was to take.
        counts: What `tests.campaign` has kept.
        results: What `tests.sequences` has kept.

    Returns:
        A line of the table.
    """
    found: Counts = json.loads(counts.read_text())["counts"] if counts.is_file() else {}
    cases = [(word, number) for own in found.values() for word, number in own.items()]
    lines = results.read_text().splitlines() if results.is_file() else []
    outcomes = [json.loads(line)["outcome"] for line in lines]
    faults = sum(number for word, number in cases if word not in GOOD)
    faults += sum(outcome not in GOOD_SEQUENCES for outcome in outcomes)
    commit = ["git", "rev-parse", "--short", "HEAD"]
    at = subprocess.run(commit, cwd=ROOT, capture_output=True, text=True).stdout.strip() or "-"
    tried = sum(number for _, number in cases)
    return f"| {seed} | {at} | {minutes:g} | {tried:,} | {len(outcomes):,} | {faults} |"


def with_row(page: str, row: str) -> str:
    """A page with a row at the end of its table of nights, which is at the page's end.

    Args:
        page: The text.
        row: A line.

    Returns:
        The text with the row; a row of the same seed gives it its place.
    """
    before, head, table = page.partition(HEAD)
    if not head:
        raise SystemExit(f"{PAGE}: no table of nights, which begins with {HEAD}")
    seed = row.split("|")[1]
    kept = [line for line in table.strip().splitlines() if line.split("|")[1] != seed]
    return f"{before}{head}\n" + "\n".join([*kept, row]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
