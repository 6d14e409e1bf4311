"""The stage that writes the table of models."""

import re
from pathlib import Path

import numpy as np
import pytest

from pipeline.evaluation import evaluate
from pipeline.files import write_json
from pipeline.rank_file import write_ranks
from pipeline.score_file import SplitScores

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path):
    """A folder with the default params.yaml, and metrics and ranks of two models."""
    (tmp_path / "data/raw/shapes").mkdir(parents=True)
    params = (ROOT / "params.yaml").read_text()
    (tmp_path / "params.yaml").write_text(re.sub("(?m)^loss: .*", "loss: knn_margin", params))
    ids = [f"{n}.jpg" for n in range(8)]
    for name, signal in (("vse", 0.5), ("scan", 3.0)):
        scores = np.random.default_rng(0).standard_normal((8, 8)) + signal * np.eye(8)
        split = SplitScores(scores.astype(np.float32), ids, ids, ids, ids)
        evaluation = evaluate(split, 1, 20, 0.95, seed=0)
        write_json(tmp_path / f"{name}.json", evaluation.summary())
        write_ranks(tmp_path / f"{name}.h5", split, evaluation, 0.95)
    return tmp_path


def arguments(*names):
    pairs = (("--metrics", f"{name}.json", "--ranks", f"{name}.h5") for name in names)
    return [argument for pair in pairs for argument in pair]


def test_writes_a_row_per_model_and_chance(project, run_stage):
    run_stage("compare", *arguments("vse", "scan"), "--output", "r/c.md", cwd=project)
    text = (project / "r/c.md").read_text()
    assert [line.split("|")[1].strip() for line in text.splitlines()[-3:]] == [
        "vse", "scan", "chance",
    ]  # fmt: skip
    assert "Dataset shapes, ranking loss knn_margin" in text


def test_a_malformed_file_is_a_plain_line(project, run_stage):
    (project / "scan.json").write_text('{"naive": 3, "protocol": "full"}')
    process = run_stage(
        "compare", *arguments("vse", "scan"), "--output", "c.md", cwd=project, check=False
    )
    assert process.returncode == 1
    assert process.stderr.startswith("error: scan.json: not a metrics file")
    assert "Traceback" not in process.stderr
    assert not (project / "c.md").exists()
