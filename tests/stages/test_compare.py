"""The stage that writes the table of models and the page."""

import re
import shutil
from pathlib import Path

import pytest
from report_world import made_scores, put_corpus, put_model, taken_apart

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path):
    """A folder with the default params.yaml, a corpus, and everything of two models."""
    (tmp_path / "data/raw/shapes").mkdir(parents=True)
    params = (ROOT / "params.yaml").read_text()
    (tmp_path / "params.yaml").write_text(re.sub("(?m)^loss: .*", "loss: knn_margin", params))
    put_corpus(tmp_path)
    for name, signal in (("vse", 0.2), ("scan", 0.8)):
        put_model(tmp_path, name, made_scores(signal))
    return tmp_path


def arguments(*names, page=False):
    kinds = [("metrics", "json"), ("ranks", "h5")]
    found = [[f"--{kind}", f"{kind}/{n}.{end}"] for n in names for kind, end in kinds]
    if page:
        found.append(["--curves", "curves/vse.tsv", "--page", "r/index.html"])
        found.append(["--images", "images.parquet", "--captions", "captions.parquet"])
    return [*(word for words in found for word in words), "--output", "r/c.md"]


def test_writes_a_row_per_model_and_chance(project, run_stage):
    run_stage("compare", *arguments("vse", "scan"), cwd=project)
    text = (project / "r/c.md").read_text()
    assert [line.split("|")[1].strip() for line in text.splitlines()[-3:]] == [
        "vse", "scan", "chance",
    ]  # fmt: skip
    assert "Dataset shapes, ranking loss knn_margin" in text
    assert not (project / "r/index.html").exists()


def test_the_page_has_the_same_bytes_in_every_process(project, run_stage, run_process):
    process = run_stage("compare", *arguments("vse", "scan", page=True), cwd=project)
    *table, last = process.stderr.splitlines()
    assert last == "compared vse, scan: see r/c.md and r/index.html"
    assert [line.split()[1] for line in table[2:]] == ["vse", "scan", "chance"]
    assert " ".join(table[0].split()) == "| model | i2t R@1 | t2i R@1 | rsum | interval |"
    first = (project / "r/index.html").read_bytes()
    run_process("compare", *arguments("vse", "scan", page=True), cwd=project)
    assert (project / "r/index.html").read_bytes() == first
    root = taken_apart(first.decode())
    assert "Image-text retrieval on shapes" in next(root.find("h1")).text
    assert "knn_margin" in next(root.find("dl", class_="facts")).text
    names = [
        entry.text for block in root.find("dl", class_="entries") for entry in block.find("dt")
    ]
    assert "evaluation.bootstrap" in names
    assert not any(name.startswith("runtime") for name in names)
    assert str(project).encode() not in first


def test_no_scores_are_read(project, run_stage):
    shutil.rmtree(project / "scores")
    run_stage("compare", *arguments("vse", "scan", page=True), cwd=project)
    assert "Hardest failures" in (project / "r/index.html").read_text()
