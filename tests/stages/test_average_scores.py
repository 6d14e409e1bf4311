"""The stage that averages score files, and what is done with its file afterwards."""

import shutil

import numpy as np
import pytest
from corpora import ROOT, change_params
from report_world import made_scores, put_corpus

from pipeline.evaluation.score_file import read_scores, write_scores

AVERAGE = {"members": ["scan", "scan_i2t"], "weights": [3, 1], "normalise": "none"}


@pytest.fixture
def project(tmp_path):
    """A folder with params.yaml, which has an average `mine`, dvc.yaml and score files."""
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    change_params(tmp_path, evaluation__bootstrap=30, average_scores__mine=AVERAGE)
    put_corpus(tmp_path)
    for name, signal in (("scan", 0.2), ("scan_i2t", 0.8)):
        split = made_scores(signal)
        splits = {"test": split, "val": split}
        write_scores(tmp_path / f"data/scores/{name}.h5", splits, {"model": name})
    return tmp_path


ARGUMENTS = ("mine", "--output", "data/scores/mine.h5")


def test_an_average_is_evaluated_compared_and_analysed_as_a_model_is(project, run_stage, run_vse):
    """The graph of tests/test_graph.py has the stages behind it; here are the commands."""
    process = run_stage("average_scores", *ARGUMENTS, cwd=project)
    one, two, both = (
        read_scores(project / f"data/scores/{name}.h5", "test").scores
        for name in ("scan", "scan_i2t", "mine")
    )
    np.testing.assert_allclose(both, (3 * one + two) / 4, rtol=1e-6, atol=1e-7)
    rows, columns = both.shape
    assert f"mine: averaged scan, scan_i2t, test {rows} x {columns}, val" in process.stderr
    for name in ("scan", "mine"):
        files = ("--metrics", f"metrics/{name}.json", "--ranks", f"data/ranks/{name}.h5")
        run_stage("evaluate", "--scores", f"data/scores/{name}.h5", *files, cwd=project)
    runs = ("metrics/scan.json", "metrics/mine.json")
    told = run_vse("compare", *runs, "--resamples", 100, cwd=project).stdout
    assert "B: metrics/mine.json, naive" in told
    run_vse("analyse", "mine", "--output", "a", "--only", "separation", cwd=project)
    refused = run_vse("analyse", "mine", "--output", "b", cwd=project, check=False)
    assert refused.stderr == "error: mine is an average: scores alone\nchoose: --only separation\n"


def test_what_is_not_there_is_named(project, run_stage):
    arguments = ("scan_dp_rnn", "--output", "data/scores/scan_dp_rnn.h5")
    done = run_stage("average_scores", *arguments, cwd=project, check=False)
    assert done.stderr == (
        "error: average 'scan_dp_rnn': no file data/scores/dp_rnn.h5\n"
        "a member is a model, another average, or a score file that you keep there\n"
    )
