"""A sample of the reliability campaign: nothing lost, nothing silently wrong, no traceback."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from clone import ROOT
from full_disk import small_disks

from tests.campaign.__main__ import FULL, LAYOUTS, ON_DISK, PARSERS, run, sections_in, table

pytestmark = pytest.mark.slow

SLOW = ("YAML of params", "YAML of worlds")
DAMAGED = ("stages with flipped bits", "stages with files cut short")
# Cases of each section: a process for those with as many, which makes the world once.
SAMPLES = [
    (40, [LAYOUTS, *(name for name in PARSERS if name not in SLOW)]),
    (8, [*DAMAGED]),
    (2, [*SLOW, *(name for name in FULL if name not in (*PARSERS, *DAMAGED, LAYOUTS, ON_DISK))]),
    (2, [ON_DISK]),
]


@pytest.mark.parametrize(("cases", "names"), SAMPLES, ids=["parsers", "damage", "stages", "disk"])
def test_a_sample_of_every_section_holds(tmp_path: Path, cases: int, names: list[str]) -> None:
    if names == [ON_DISK] and not small_disks():
        pytest.skip("no right to mount a file system")
    counts = tmp_path / "counts.json"
    command = [sys.executable, "-m", "tests.campaign", "--cases", str(cases)]
    command += [word for name in names for word in ("--only", name)]
    command += ["--stage", "evaluate@vse", "--seed", "1", "--counts", str(counts)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(counts.read_text())["counts"]
    assert {name: sum(own.values()) for name, own in found.items()} == dict.fromkeys(names, cases)
    assert done.stdout.splitlines() == table(found)


def test_a_run_that_was_stopped_goes_on_and_counts_the_same(tmp_path: Path) -> None:
    section, sections = "embeddings in .npy", sections_in(tmp_path, [])
    whole = run(sections, {section: 200}, 3, tmp_path / "whole.json")
    kept = tmp_path / "kept.json"
    run(sections, {section: 100}, 3, kept)
    assert sum(json.loads(kept.read_text())["counts"][section].values()) == 100
    assert run(sections, {section: 200}, 3, kept) == whole
    assert table(whole)[-1].startswith(f"| {section} | 200 | ")
