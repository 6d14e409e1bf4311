"""Stages that work on matrices of scores, and on what is written of them, load no torch."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from corpora import ROOT, change_params
from report_world import made_scores, put_corpus

from pipeline.evaluation.score_file import write_scores

SCORES = "data/scores/"
WRITTEN = ["--metrics", "metrics/{0}.json", "--ranks", "data/ranks/{0}.h5"]
CURVES = ["--curves", "data/curves"]
FILES = {"--training": "a", "--recall": "b", "--separation": "c", "--hubs": "d"}
TABLES = [word for option in FILES.items() for word in option]
COMMANDS = [
    ["average_scores", "scan_dp_rnn", "--output", f"{SCORES}scan_dp_rnn.h5"],
    *(
        ["evaluate", "--scores", f"{SCORES}{name}.h5", *(word.format(name) for word in WRITTEN)]
        for name in ("scan", "dp_rnn", "scan_dp_rnn")
    ),
    ["compare", "--metrics", "metrics", "--ranks", "data/ranks", *CURVES, "--output", "table.md"],
    ["tabulate_plots", "--ranks", "data/ranks", *CURVES, *TABLES],
]
SCRIPT = """
import json, sys
from importlib import import_module
name, *words = json.loads(sys.argv[1])
import_module(f"stages.{name}").main(words, standalone_mode=False)
print("torch" in sys.modules)
"""


@pytest.mark.slow
def test_from_scores_to_plots(tmp_path):
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    every = ["csls", "dual_softmax", "hungarian", "inverted_softmax", "querybank", "sinkhorn"]
    change_params(tmp_path, evaluation__bootstrap=30, inference__criteria=every)
    put_corpus(tmp_path)
    for name, signal in (("scan", 0.2), ("dp_rnn", 0.8)):
        splits = {"test": made_scores(signal)}
        write_scores(tmp_path / f"{SCORES}{name}.h5", splits, {"model": name})
    (tmp_path / "data/curves").mkdir()
    for command in COMMANDS:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, json.dumps(command)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        assert done.stdout == "False\n", f"{command[0]}: {done.stderr}"
