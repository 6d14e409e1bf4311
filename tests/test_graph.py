"""The whole graph as a user runs it, in a fresh clone on a tiny world: `dvc repro`, `dvc exp run`.

The tests of this file share one workspace and run in order; each leaves it as it found it.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipeline.evaluation.metrics import METRICS
from pipeline.runtime.recipes import overlay
from stages.params import find_problems

ROOT = Path(__file__).resolve().parents[1]
# the file's own phases with fewer epochs
PHASES = YAML(typ="safe", pure=True).load((ROOT / "params.yaml").read_text())["dual_path"]["phases"]
PHASES[0] |= {"epochs": 12, "lr": 0.003, "stop_below": 0.0}
PHASES[1] |= {"epochs": 1}
TINY = {
    "runtime": {"threads": 1},
    "shapes": {"train": 96, "val": 16, "test": 24, "image_size": 64},
    "vocabulary": {"dim": 16, "epochs": 1},
    "detector": {
        "channels": 16,
        "hidden": 32,
        "anchors": [[8.0], [13.0], [20.0]],
        "proposals": 16,
        "training": {"epochs": 1, "images_per_epoch": None, "warmup": 2, "sampled": 16},
    },
    "image_features": {"size": 64, "batch_size": 16, "workers": 0},
    "regions": {"boxes": 6, "workers": 0},
    "sentences": {"fisher": {"centres": 4, "ica": 8, "pca": 32}},
    "vse": {"dim": 32, "hidden": 32, "word_dim": 16, "training": {"epochs": 6, "batch_size": 32}},
    "two_branch": {
        "dim": 32,
        "hidden": 64,
        "dropout": 0.0,
        "training": {"epochs": 8, "batch_size": 32, "lr": 0.003},
    },
    "cca": {"dim": 8, "regularisation": 0.1},  # 96 images in 896 dimensions
    "dual_path": {
        "dim": 32,
        "hidden": 32,
        "dropout": 0.0,
        "word_dim": 16,
        "text_width": 8,
        "resize": 64,
        "crop": 56,
        "phases": PHASES,
        "training": {"workers": 0},
    },
    "scan": {"dim": 32, "word_dim": 16, "training": {"epochs": 8, "batch_size": 16, "lr": 0.005}},
    "dp_rnn": {
        "dim": 16,
        "word_dim": 16,
        "candidates": 3,
        "training": {
            "epochs": {"matching": 3, "recurrent": 1, "all": 1},
            "batch_size": 32,
            "lr": 0.003,
        },
    },
    "scoring": {"shortlist": 8},
    "evaluation": {"bootstrap": 50},
}
MODELS = ["cca", "dp_rnn", "dual_path", "scan", "two_branch", "vse"]
TRAINED = [model for model in MODELS if model != "cca"]
ATTENDING = ["dp_rnn", "scan"]
STAGES = ["train", "score", "evaluate"]
OUTPUTS = [
    "data/corpus/images.parquet",
    "data/corpus/captions.parquet",
    "data/vocabulary/vocabulary.json",
    "data/features/image.h5",
    "data/features/sentences.h5",
    "data/features/sentence_encoder.h5",
    "data/features/regions.h5",
    "data/features/pseudo_classes.h5",
    "data/checkpoints/detector.safetensors",
    "data/checkpoints/image_network.safetensors",
    "data/curves/detector.tsv",
    *(f"data/curves/{model}.tsv" for model in MODELS),
    *(f"data/attention/{model}.h5" for model in ATTENDING),
    *(f"data/checkpoints/{model}.safetensors" for model in MODELS),
    *(f"data/scores/{model}.h5" for model in MODELS),
    *(f"data/ranks/{model}.h5" for model in MODELS),
    *(f"metrics/{model}.json" for model in MODELS),
    "report/compare.md",
    "report/index.html",
]


class Workspace:
    """A clone with its own DVC cache in which commands are run as a user would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "DVC_NO_ANALYTICS": "1",
        }

    def run(self, *command: str, check: bool = True) -> str:
        process = subprocess.run(
            command,
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert (process.returncode == 0) == check, process.stdout
        return process.stdout

    def lock(self) -> dict:
        return YAML(typ="safe", pure=True).load((self.folder / "dvc.lock").read_text())["stages"]

    def outputs(self) -> dict[str, bytes]:
        return {name: (self.folder / name).read_bytes() for name in OUTPUTS}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clone") / "workbench"
    folder.mkdir()
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, files):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    os.environ["GIT_CONFIG_COUNT"] = "0"
    space = Workspace(folder)
    params = folder / "params.yaml"
    here = Path.cwd()
    os.chdir(folder)
    try:
        params.write_text(overlay(params, TINY, find_problems)[0])
    finally:
        os.chdir(here)
    space.run("git", "init", "--quiet", "--initial-branch=main")
    space.run("git", "config", "user.email", "test@example.org")
    space.run("git", "config", "user.name", "test")
    space.run("git", "add", "--all")
    space.run("git", "commit", "--quiet", "--message", "tiny world")
    space.run("dvc", "repro")
    space.run("git", "add", "--all")
    space.run("git", "commit", "--quiet", "--message", "first run")
    return space


def ran(output: str) -> list[str]:
    """Names of the stages that a DVC command ran, in order."""
    return [
        line.split("'")[1]
        for line in output.splitlines()
        if line.startswith("Running stage '") and line.endswith(":")
    ]


def test_repro_makes_every_output_and_beats_chance(workspace):
    assert all(workspace.outputs().values())
    table = (workspace.folder / "report/compare.md").read_text()
    for model in MODELS:
        metrics = json.loads((workspace.folder / f"metrics/{model}.json").read_text())
        said = {"protocol", "shortlist"} if model == "dp_rnn" else {"protocol"}
        assert set(metrics) == {"naive", "inverted_softmax"} | said
        assert set(metrics["naive"]) == {"i2t", "t2i", "rsum"}
        assert metrics["inverted_softmax"]["transductive"] is True
        for direction in ("i2t", "t2i"):
            assert set(metrics["naive"][direction]) == {metric.name for metric in METRICS}
        # 24 test images: a random ranking has a caption-to-image R@10 of 10/24.
        assert metrics["naive"]["t2i"]["r10"] > 100 * 10 / 24, model
        assert f"| {model} " in table


def test_graph_leaves_git_clean(workspace):
    assert workspace.run("git", "status", "--porcelain") == ""


def test_second_repro_does_nothing(workspace):
    assert "Data and pipelines are up to date." in workspace.run("dvc", "repro")


def test_repeating_everything_gives_the_same_bytes(workspace):
    before, lock = workspace.outputs(), workspace.lock()
    workspace.run("dvc", "repro", "--force", "--no-run-cache")
    assert workspace.outputs() == before
    assert workspace.lock() == lock


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("loss=bogus", "loss = 'bogus': allowed are sum_margin, max_margin, knn_margin"),
        ("+los=1", "los = 1: unknown key; did you mean loss?"),
    ],
)
def test_wrong_value_fails_at_once_and_loses_nothing(workspace, setting, words):
    before = workspace.outputs()
    output = workspace.run("dvc", "exp", "run", "-S", setting, check=False)
    assert words in output
    assert "touch params.yaml && git checkout params.yaml" in output
    assert "Traceback" not in output
    assert ran(output) == ["check_params"]
    assert workspace.outputs() == before
    (workspace.folder / "params.yaml").touch()
    workspace.run("git", "checkout", "params.yaml")
    assert ran(workspace.run("dvc", "repro")) == []  # the marker comes back from the run cache


def restore(workspace):
    workspace.run("git", "checkout", ".")
    workspace.run("dvc", "checkout")
    assert "up to date" in workspace.run("dvc", "repro")


def test_loss_reruns_only_what_depends_on_it(workspace):
    output = workspace.run("dvc", "exp", "run", "-S", "loss=knn_margin")
    expected = {f"{stage}@{m}" for stage in STAGES for m in TRAINED}
    expected |= {f"record_attention@{model}" for model in ATTENDING}
    assert set(ran(output)) == expected | {"check_params", "compare"}
    difference = workspace.run("dvc", "metrics", "diff")
    for metric in ("naive.i2t.r1", "naive.t2i.r10", "naive.rsum"):
        assert metric in difference
    assert "cca.json" not in difference
    restore(workspace)


def test_encoding_reruns_only_the_models_on_sentence_vectors(workspace):
    output = workspace.run("dvc", "exp", "run", "-S", "sentences.encoding=tfidf")
    expected = {f"{stage}@{m}" for stage in STAGES for m in ("cca", "two_branch")}
    expected |= {"check_params", "encode_sentences", "compare"}
    assert set(ran(output)) == expected
    difference = workspace.run("dvc", "metrics", "diff")
    assert "two_branch.json" in difference
    assert "cca.json" in difference
    assert "vse.json" not in difference
    restore(workspace)


@pytest.mark.parametrize(
    ("setting", "model", "stages"),
    [
        ("dual_path.alignment=left", "dual_path", STAGES),
        ("scoring.shortlist=4", "dp_rnn", ["score", "record_attention", "evaluate"]),
    ],
)
def test_a_setting_of_one_model_reruns_that_model_only(workspace, setting, model, stages):
    output = workspace.run("dvc", "exp", "run", "-S", setting)
    expected = {f"{stage}@{model}" for stage in stages} | {"check_params"}
    assert expected <= set(ran(output)) <= expected | {"compare"}
    restore(workspace)


def test_criterion_reruns_only_the_evaluation(workspace):
    output = workspace.run("dvc", "exp", "run", "-S", "inference.criterion=csls")
    expected = {f"evaluate@{model}" for model in MODELS}
    assert set(ran(output)) == expected | {"check_params", "compare"}
    assert "csls.rsum" in workspace.run("dvc", "metrics", "diff")
    restore(workspace)
