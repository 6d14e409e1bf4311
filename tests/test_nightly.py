"""The night: its row in the table, and commands that repeat what it found."""

import json
import subprocess
import sys
import time

import pytest
from clone import ROOT

from tests.campaign.__main__ import one, repeated, run_until, sections_in
from tests.campaign.nightly import HEAD, PAGE, night, with_row

SECTION = "embeddings in .npy"


def test_a_night_gets_a_row_and_a_second_one_of_its_seed_takes_its_place():
    page = f"# Page\n\n{HEAD}\n|---:|\n| 20260101 | old |\n| 20260102 | first |\n"
    page = with_row(page, "| 20260102 | second |")
    assert page.endswith("|---:|\n| 20260101 | old |\n| 20260102 | second |\n")
    with pytest.raises(SystemExit, match="no table of nights"):
        with_row("# Page\n", "| 20260102 | second |")


def test_the_page_has_the_table_at_its_end():
    row = "| 1 | abc | 60 | 1 | 2 | 0 |"
    assert with_row(PAGE.read_text(), row).splitlines()[-1] == row


def test_a_night_counts_cases_sequences_and_faults(tmp_path):
    counts, results = tmp_path / "counts.json", tmp_path / "results.jsonl"
    assert night(7, 0.5, counts, results).endswith(" | 0.5 | 0 | 0 | 0 |")
    cases = {SECTION: {"refused": 1000, "traceback: KeyError": 2}, "power cuts": {"continued": 3}}
    counts.write_text(json.dumps({"seed": 7, "counts": cases}))
    outcomes = ["equal", "equal", "other bytes: data/scores/cca.h5"]
    results.write_text("".join(json.dumps({"outcome": own}) + "\n" for own in outcomes))
    row = night(7, 0.5, counts, results)
    assert row.startswith("| 7 | ")
    assert row.endswith(" | 0.5 | 1,005 | 3 | 3 |")


def test_the_time_of_a_night_ends_it(tmp_path):
    section = {SECTION: sections_in(tmp_path, [])[SECTION]}
    assert run_until(time.monotonic() - 1, section, 1, tmp_path / "none.json") == {}


@pytest.mark.slow
def test_a_case_alone_is_that_of_the_campaign(tmp_path):
    case = sections_in(tmp_path, [])[SECTION]
    command = repeated(SECTION, 3, 5)
    assert command == f"python -m tests.campaign --seed 3 --only '{SECTION}' --case 5"
    words = [sys.executable, "-m", "tests.campaign", "--seed", "3", "--only", SECTION]
    done = subprocess.run([*words, "--case", "5"], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == f"{SECTION}, case 5: {one(case, f'3 {SECTION} 5', 5)}\n"
