"""A sample of the reliability campaign: nothing lost, nothing silently wrong, no traceback."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from full_disk import small_disks

from tests.campaign.__main__ import faults, run, table
from tests.campaign.sections import FULL, PARSED, RUNS, Sections

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
FILES = {"flipped bits": 60, "files cut short": 60, "files that may not grow": 30}
FILES |= {"kills while rows are written": 4}
SLOW = ("YAML of params", "YAML of worlds", "YAML of claims")
MOUNTED = ("stages on full disks", "stages on read-only disks")


def sample(tmp_path: Path, cases: dict[str, int]) -> None:
    counts = run(Sections(tmp_path), cases, 1, None)
    assert {name: sum(found.values()) for name, found in counts.items()} == cases
    assert not faults(counts), counts


@pytest.mark.parametrize("section", FILES)
def test_damaged_files_are_refused_or_read_as_they_were(tmp_path: Path, section: str) -> None:
    sample(tmp_path, {section: FILES[section]})


def test_inputs_of_every_parser_are_refused_or_read(tmp_path: Path) -> None:
    sample(tmp_path, {name: 2 if name in SLOW else 40 for name in PARSED})


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler to count the system's calls with")
def test_a_sample_of_every_section_about_stages_holds(tmp_path: Path) -> None:
    names = [name for name in FULL if name not in (*FILES, *PARSED, *RUNS)]
    names = [name for name in names if name not in MOUNTED or small_disks()]
    chosen = [word for name in names for word in ("--only", name)]
    counts = tmp_path / "counts.json"
    command = [sys.executable, "-m", "tests.campaign", "--cases", "2", *chosen]
    command += ["--stage", "evaluate@vse", "--seed", "1", "--counts", str(counts)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[2:] == table(json.loads(counts.read_text())["counts"])[2:]
    assert len(done.stdout.splitlines()) == 2 + len(names)


def test_a_run_that_was_stopped_goes_on_and_counts_the_same(tmp_path: Path) -> None:
    kept, section = tmp_path / "counts.json", ".npy headers"
    whole = run(Sections(tmp_path), {section: 200}, 3, None)
    run(Sections(tmp_path), {section: 100}, 3, kept)
    assert sum(json.loads(kept.read_text())["counts"][section].values()) == 100
    assert run(Sections(tmp_path), {section: 200}, 3, kept) == whole
    assert table(whole)[-1].startswith("| .npy headers | 200 | ")
