"""The stage that evaluates one model's choice in another's order, and what is made of it."""

import json

import pytest
from commands import succeed
from corpora import change_params
from report_world import CAPTIONS, IMAGES, made_scores, put_corpus, put_model

from pipeline.evaluation.rank_file import read_findings
from pipeline.evaluation.score_file import write_scores
from stages.compare import main as compare
from stages.evaluate_reranked import main as evaluate_reranked

FILES = ("--metrics=metrics/vse_scan.json", "--ranks=ranks/vse_scan.h5")
ARGUMENTS = ("--first=scores/vse.h5", "--second=scores/scan.h5", *FILES)


@pytest.fixture
def project(tmp_path):
    change_params(tmp_path, evaluation__bootstrap=20, rerank__vse_scan__top=3)
    put_corpus(tmp_path)
    for name, signal in (("vse", 0.2), ("scan", 0.8)):
        put_model(tmp_path, name, made_scores(signal, seed=len(name)))
    return tmp_path


def test_it_has_a_row_and_says_what_it_costs(project):
    """By its scores alone, whatever inference.criteria has; and without a separation of its own."""
    assert "vse_scan, naive" in succeed(evaluate_reranked, project, "vse_scan", *ARGUMENTS)
    content = json.loads((project / "metrics/vse_scan.json").read_text())
    assert list(content) == ["naive", "protocol", "split", "rerank"]
    cost = {"i2t": 300 / CAPTIONS, "t2i": 300 / IMAGES}
    assert content["rerank"] == cost | {"first": "vse", "second": "scan", "top": 3}
    found = read_findings(project / "ranks/vse_scan.h5")
    assert found.separation is None
    assert list(found.hubs) == ["naive"]
    hits = found.hits["i2t"]
    scores = made_scores(0.8, seed=4).scores
    assert (hits.scores == scores[hits.queries[:, None], hits.items]).all()
    models = [f"metrics/{name}.json" for name in ("scan", "vse", "vse_scan")]
    given = [f"--metrics={path}" for path in models] + ["--ranks=ranks", "--curves=curves"]
    tables = ("--images=images.parquet", "--captions=captions.parquet")
    succeed(compare, project, *given, *tables, "--output=c.md", "--page=index.html")
    note = "scan orders the best 3 of vse and scores 10.0 % (image queries) and 25.0 % (caption"
    for file in ("c.md", "index.html"):
        assert f"vse_scan: {note} queries) of all pairs" in (project / file).read_text()
    assert "| vse_scan" in (project / "c.md").read_text()
    assert "vse_scan: S =" not in (project / "index.html").read_text()


@pytest.mark.parametrize("name", ["vse", "scan"])
def test_a_shortlist_of_one_model_is_said_and_not_judged_by_the_scores_of_the_other(project, name):
    described = {"model": name, "shortlist": 2}
    write_scores(project / f"scores/{name}.h5", {"test": made_scores(0.5)}, described)
    succeed(evaluate_reranked, project, "vse_scan", *ARGUMENTS)
    content = json.loads((project / "metrics/vse_scan.json").read_text())
    assert content["shortlist"] == 2
    assert "in_shortlist" not in content["naive"]
