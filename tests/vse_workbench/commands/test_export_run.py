"""Runs of a model as a user exports them and ir_measures judges them."""

import json
import shutil

import ir_measures
import pytest
from corpora import ROOT, change_params
from report_world import CAPTIONS, CSLS, IMAGES, made_scores, put_model


def test_the_figures_of_the_files_are_those_of_evaluation(tmp_path, run_vse):
    """With the criterion and the k of params.yaml that evaluation had."""
    change_params(tmp_path, inference__k=CSLS.k)
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    put_model(tmp_path, "vse", made_scores(0.3), csls=True)
    (tmp_path / "data").mkdir()
    (tmp_path / "scores").rename(tmp_path / "data/scores")
    options = ["--output", "runs", "--criterion", "csls", "--depth"]
    done = run_vse("export", "run", "vse", *options, 0, cwd=tmp_path)
    assert "runs/vse+csls.i2t.run: queries with equal scores: 0;" in done.stderr
    metrics = json.loads((tmp_path / "metrics/vse.json").read_text())["csls"]
    for way in ("i2t", "t2i"):
        measures = {name: ir_measures.Success @ int(name[1:]) for name in ("r1", "r5", "r10")}
        found = ir_measures.calc_aggregate(
            list(measures.values()),
            ir_measures.read_trec_qrels(str(tmp_path / f"runs/test.{way}.qrels")),
            ir_measures.read_trec_run(str(tmp_path / f"runs/vse+csls.{way}.run")),
        )
        for name, theirs in measures.items():
            assert 100 * found[theirs] == pytest.approx(metrics[way][name], abs=1e-3)
    run = tmp_path / "runs/vse+csls.t2i.run"
    every = [line.split() for line in run.read_text().splitlines()]
    assert len(every) == CAPTIONS * IMAGES
    run_vse("export", "run", "vse", *options, 3, cwd=tmp_path)
    kept = [line.split() for line in run.read_text().splitlines()]
    assert kept == [words for words in every if int(words[3]) <= 3]
