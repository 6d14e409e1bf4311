"""The stage that writes the table of models and the page."""

import shutil

import pytest
from corpora import change_params
from report_world import made_scores, put_corpus, put_model, taken_apart


@pytest.fixture
def project(tmp_path):
    """A folder with the default params.yaml, a corpus, and everything of two models."""
    change_params(tmp_path, loss="knn_margin")
    put_corpus(tmp_path)
    for name, signal in (("vse", 0.2), ("scan", 0.8)):
        put_model(tmp_path, name, made_scores(signal))
    return tmp_path


ARGUMENTS = [f"--metrics=metrics/{name}.json" for name in ("vse", "scan")]
ARGUMENTS += [f"--ranks=ranks/{name}.h5" for name in ("vse", "scan")]
ARGUMENTS += ["--curves=curves/vse.tsv", "--images=images.parquet", "--captions=captions.parquet"]
ARGUMENTS += ["--page=r/index.html", "--output=r/c.md"]


def test_the_page_has_the_same_bytes_in_every_process(project, run_stage, run_process):
    shutil.rmtree(project / "scores")  # which it does not read
    process = run_stage("compare", *ARGUMENTS, cwd=project)
    *table, verdict, last = process.stderr.splitlines()
    assert last == "compared vse, scan: see r/c.md and r/index.html"
    assert verdict.startswith("scan leads vse by ")
    text = (project / "r/c.md").read_text()
    assert text.splitlines()[2] == verdict
    assert text.splitlines()[-5:] == table
    assert "Dataset shapes, ranking loss knn_margin" in text
    first = (project / "r/index.html").read_bytes()
    run_process("compare", *ARGUMENTS, cwd=project)
    assert (project / "r/index.html").read_bytes() == first
    root = taken_apart(first.decode())
    assert "knn_margin" in next(root.find("dl", class_="facts")).text
    assert str(project).encode() not in first


def test_published_rows_stand_in_the_table_and_on_the_page(project, run_stage):
    row = {"model": "vse", "paper": "Someone & Else", "table": "t", "row": "r", "split": "other"}
    change_params(project, loss="knn_margin", published=[row | {"t2i": {"r1": 40.0}}])
    run_stage("compare", *ARGUMENTS, cwd=project)
    said = "Not compared, vse: Someone & Else, t, r (t2i R@1 40): of other test images; measured "
    assert said in (project / "r/c.md").read_text().partition("## Published figures")[2]
    root = taken_apart((project / "r/index.html").read_text())
    assert said in next(root.find("section", aria_labelledby="published")).text
    assert "none that is known" in next(root.find("dl", class_="facts")).text
