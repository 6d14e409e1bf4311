"""Runs by the names of their files, and the bounds of what is drawn to compare two."""

import pytest
from commands import refusal
from report_world import made_scores, put_model

from pipeline.evaluation.paired import paired_differences
from pipeline.evaluation.revisions import compare_runs, load_run, load_runs


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """A folder of two rank files: one of them is the better model."""
    folder = tmp_path_factory.mktemp("runs")
    for name, signal in (("weak", 0.1), ("strong", 0.8)):
        put_model(folder, name, made_scores(signal))
    return folder / "ranks"


def rsums(runs):
    return {name: round(run.measured.figures["rsum"], 3) for name, run in runs.items()}


def test_runs_are_a_file_several_or_a_folder(ranks):
    weak, strong = f"{ranks}/weak.h5", f"{ranks}/strong.h5"
    alone = {name: rsums(load_runs(name, None, "naive"))["no. 1"] for name in (weak, strong)}
    assert alone[weak] < alone[strong]
    both = rsums(load_runs(f"{weak},{strong}", "other", "naive"))
    assert both == {"no. 1": alone[weak], "no. 2": alone[strong]}
    found = rsums(load_runs(str(ranks), None, "naive"))
    assert found == {"strong.h5": alone[strong], "weak.h5": alone[weak]}


def test_a_folder_without_runs_is_refused(ranks, tmp_path):
    said = refusal(load_runs, str(tmp_path), None, "naive")
    assert "no rank file (.h5); expected are runs of different seeds" in said


@pytest.mark.parametrize(
    ("changed", "allowed"),
    [
        ({"resamples": 100, "confidence": 0.5}, True),
        ({"resamples": 99}, False),
        ({"confidence": 0.49}, False),
        ({"confidence": 1.0}, False),
    ],
)
def test_what_is_drawn_has_bounds(ranks, changed, allowed):
    files = (f"{ranks}/weak.h5", f"{ranks}/strong.h5")
    if not allowed:
        assert "allowed are 100 and more, and from 0.5" in refusal(compare_runs, *files, **changed)
        return
    first, second = (load_run(file, None, "naive").ranks for file in files)
    expected = paired_differences(first, second, 100, 0.5, 0)
    assert compare_runs(*files, **changed) == expected
