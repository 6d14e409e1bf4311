"""A sample of the reliability campaign: nothing lost, nothing silently wrong, no traceback."""

import json
from pathlib import Path

import pytest

from tests.campaign.__main__ import run, table
from tests.campaign.cases import GOOD, Campaign


@pytest.mark.parametrize("section", Campaign(Path()).sections)
def test_a_sample_of_every_section_holds(tmp_path: Path, section: str) -> None:
    cases = 6 if "kills" in section else 40
    counts = run(Campaign(tmp_path / "case"), cases, 1, None, [section])
    assert sum(counts[section].values()) == cases
    assert set(counts[section]) <= set(GOOD), counts


def test_a_run_that_was_stopped_goes_on_and_counts_the_same(tmp_path: Path) -> None:
    kept, case, section = tmp_path / "counts.json", tmp_path / "case", ".npy headers"
    whole = run(Campaign(case), 200, 3, None, [section])
    run(Campaign(case), 100, 3, kept, [section])
    assert sum(json.loads(kept.read_text())["counts"][section].values()) == 100
    assert run(Campaign(case), 200, 3, kept, [section]) == whole
    assert table(whole)[-1].startswith("| .npy headers | 200 | ")
