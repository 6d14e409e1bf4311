"""The stage that turns a score file into metrics and ranks."""

import json

import pandas as pd
import pytest
from corpora import change_params, write_corpus
from ranking_cases import a_split

from pipeline.corpus.tables import RELEVANCE
from pipeline.evaluation.rank_file import METRICS, read_query_ranks, read_ranks
from pipeline.evaluation.score_file import write_scores


@pytest.fixture
def project(tmp_path):
    change_params(tmp_path, evaluation__bootstrap=30)
    split = a_split(images=20, captions=(2,), signal=2)
    write_scores(tmp_path / "vse.h5", {"test": split, "val": split}, {"model": "vse"})
    write_corpus(tmp_path / "corpus", [])
    return tmp_path


ARGUMENTS = ("--scores", "vse.h5", "--metrics", "m/vse.json", "--ranks", "r/vse.h5")
RELEVANT = ("--relevance", "corpus/relevance.parquet")


def test_writes_metrics_and_ranks_twice_the_same(project, run_stage):
    process = run_stage("evaluate", *ARGUMENTS, cwd=project)
    metrics = project / "m/vse.json"
    content = json.loads(metrics.read_text())
    assert list(content) == ["naive", "inverted_softmax", "protocol", "split"]
    assert list(content["naive"]) == ["i2t", "t2i", "rsum", "hubs", "separation"]
    assert list(content["inverted_softmax"]) == ["transductive", "i2t", "t2i", "rsum", "hubs"]
    assert list(content["naive"]["i2t"]) == [metric.name for metric in METRICS]
    record = read_ranks(project / "r/vse.h5")
    low, high = record.intervals["naive"]["rsum"]
    assert low <= content["naive"]["rsum"] <= high
    assert f"rsum {content['naive']['rsum']:.1f}" in process.stderr
    before = metrics.read_bytes(), (project / "r/vse.h5").read_bytes()
    run_stage("evaluate", *ARGUMENTS, cwd=project)
    assert before == (metrics.read_bytes(), (project / "r/vse.h5").read_bytes())


def test_several_criteria_are_those_of_runs_of_one_each(project, run_stage):
    found = {}
    for names in ("csls, inverted_softmax", "csls", "inverted_softmax"):
        change_params(project, inference__criteria=names.split(", "))
        run_stage("evaluate", *ARGUMENTS, cwd=project)
        found[names] = json.loads((project / "m/vse.json").read_text())
        for name in ("naive", *names.split(", ")):
            assert read_query_ranks(project / "r/vse.h5", name).protocol == "full"
    both = found.pop("csls, inverted_softmax")
    assert list(both) == ["naive", "csls", "inverted_softmax", "protocol", "split"]
    assert both == found["csls"] | found["inverted_softmax"]


def test_a_subset_is_said_and_its_size_checked(project, run_stage):
    change_params(project, evaluation__subset=8)
    run_stage("evaluate", *ARGUMENTS, cwd=project)
    content = json.loads((project / "m/vse.json").read_text())
    assert (content["protocol"], content["test_images"]) == ("first_8", 20)
    assert read_ranks(project / "r/vse.h5").image_ids == [f"{n}.jpg" for n in range(8)]
    change_params(project, evaluation__subset=21)
    process = run_stage("evaluate", *ARGUMENTS, cwd=project, check=False)
    assert "evaluation.subset = 21: the test split has 20 images" in process.stderr
    change_params(project, evaluation={"subset": 0, "folds": 3})
    process = run_stage("evaluate", *ARGUMENTS, cwd=project, check=False)
    assert "evaluation.folds = 3" in process.stderr


def test_extended_positives_stand_beside_and_change_nothing_else(project, run_stage):
    run_stage("evaluate", *ARGUMENTS, *RELEVANT, cwd=project)
    before = json.loads((project / "m/vse.json").read_text())
    own = [(f"{n // 2}.jpg", f"c{n}", 1.0, n > 3, True) for n in range(40)]
    more = [("3.jpg", "c12", 2.0, True, True), ("elsewhere.jpg", "c7", 1.0, True, True)]
    pairs = pd.DataFrame([*own, *more], columns=RELEVANCE.names)
    write_corpus(project / "corpus", [], relevance=pairs)
    change_params(project, corpus={"positives": "file", "positives_path": "pairs.csv"})
    process = run_stage("evaluate", *ARGUMENTS, *RELEVANT, cwd=project)
    after = json.loads((project / "m/vse.json").read_text())
    extended = after.pop("extended")
    assert after == before
    assert list(extended) == ["positives", "pairs", "queries", *before][:-2]
    assert (extended["positives"], extended["pairs"]) == ("file", 41)
    assert extended["queries"] == {"i2t": 18, "t2i": 40}
    found = extended["naive"]
    assert list(found["i2t"]) == [*before["naive"]["i2t"], "rprecision", "ndcg"]
    assert found["t2i"]["r1"] >= before["naive"]["t2i"]["r1"]
    assert f"vse, naive, file: i2t R@1 {found['i2t']['r1']:.1f}" in process.stderr
    intervals = read_ranks(project / "r/vse.h5").extended["intervals"]
    assert set(intervals) == {"naive", "inverted_softmax"}
    process = run_stage("evaluate", *ARGUMENTS, cwd=project, check=False)
    assert "corpus.positives = file, without --relevance" in process.stderr
