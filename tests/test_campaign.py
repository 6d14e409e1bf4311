"""A sample of the reliability campaign: nothing lost, nothing silently wrong, no traceback."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from full_disk import small_disks

from tests.campaign.__main__ import FULL, ON_DISK, PARSERS, run, sections_in, table

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
SLOW = ("YAML of params", "YAML of worlds")
MORE = {"stages with flipped bits": 20, "stages with files cut short": 20}


@pytest.mark.parametrize("name", FULL)
def test_a_sample_of_every_section_holds(tmp_path: Path, name: str) -> None:
    if name == ON_DISK and not small_disks():
        pytest.skip("no right to mount a file system")
    cases = 2 if name in SLOW else 40 if name in PARSERS else MORE.get(name, 2)
    counts = tmp_path / "counts.json"
    command = [sys.executable, "-m", "tests.campaign", "--cases", str(cases), "--only", name]
    command += ["--stage", "evaluate@vse", "--seed", "1", "--counts", str(counts)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(counts.read_text())["counts"]
    assert sum(found[name].values()) == cases
    assert done.stdout.splitlines() == table(found)


def test_a_run_that_was_stopped_goes_on_and_counts_the_same(tmp_path: Path) -> None:
    section, sections = "embeddings in .npy", sections_in(tmp_path, [])
    whole = run(sections, {section: 200}, 3, tmp_path / "whole.json")
    kept = tmp_path / "kept.json"
    run(sections, {section: 100}, 3, kept)
    assert sum(json.loads(kept.read_text())["counts"][section].values()) == 100
    assert run(sections, {section: 200}, 3, kept) == whole
    assert table(whole)[-1].startswith(f"| {section} | 200 | ")
