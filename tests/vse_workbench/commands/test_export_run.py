"""Runs of a model as a user exports them and ir_measures judges them."""

import json
import shutil
from pathlib import Path

import ir_measures
import pytest
from report_world import CSLS, IMAGES, made_scores, put_model

from pipeline.runtime.yaml_text import read_yaml

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(tmp_path):
    """A folder with the graph, its params, and the scores and metrics of vse."""
    (tmp_path / "data/raw/shapes").mkdir(parents=True)
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    put_model(tmp_path, "vse", made_scores(0.3))
    (tmp_path / "scores").rename(tmp_path / "data/scores")
    return tmp_path


def test_the_figures_of_the_files_are_those_of_evaluation(project, run_vse):
    done = run_vse("export", "run", "vse", "--output", "runs", "--depth", 0, cwd=project)
    assert "runs/vse.i2t.run: 0 queries had equal scores" in done.stderr
    metrics = json.loads((project / "metrics/vse.json").read_text())["naive"]
    for way in ("i2t", "t2i"):
        measures = {name: ir_measures.Success @ int(name[1:]) for name in ("r1", "r5", "r10")}
        found = ir_measures.calc_aggregate(
            list(measures.values()),
            ir_measures.read_trec_qrels(str(project / f"runs/test.{way}.qrels")),
            ir_measures.read_trec_run(str(project / f"runs/vse.{way}.run")),
        )
        for name, theirs in measures.items():
            assert 100 * found[theirs] == pytest.approx(metrics[way][name], abs=1e-3)


def test_a_criterion_and_a_depth(project, run_vse):
    options = ["--output", "runs", "--criterion", "csls", "--depth", 3]
    run_vse("export", "run", "vse", *options, cwd=project)
    lines = (project / "runs/vse+csls.t2i.run").read_text().splitlines()
    first = [line.split() for line in lines if line.split()[3] == "1"]
    k = read_yaml(ROOT / "params.yaml")["inference"]["k"]
    scores = type(CSLS)("csls", k=k).rescored(made_scores(0.3).scores, "t2i")
    best = {f"c{n}": f"im{scores[:, n].argmax()}.jpg" for n in range(scores.shape[1])}
    assert {words[0]: words[2] for words in first} == best
    assert len(lines) == 3 * len(first)
    assert len(scores) == IMAGES


def test_another_name_is_a_plain_line(project, run_vse):
    done = run_vse("export", "run", "vsee", "--output", "runs", cwd=project, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: model 'vsee': stage evaluate of dvc.yaml has cca")
