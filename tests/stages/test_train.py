"""`python -m stages.train vse` as DVC runs it: outputs, repeats, kill -9, and bad input."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from tiny_inputs import ROOT, invoke, options, write_image_features, write_inputs, write_params
from tiny_inputs import write_vocabulary as write_words

from pipeline.storage.checkpoint import read_checkpoint
from stages.train import main

OUTPUTS = ["--output", "out/vse.safetensors", "--curve", "out/vse.tsv"]


@pytest.fixture
def folder(tmp_path):
    write_inputs(tmp_path)
    return tmp_path


def results(folder):
    return [(folder / "out" / name).read_bytes() for name in ("vse.safetensors", "vse.tsv")]


def train(folder):
    """Outputs of an undisturbed training."""
    code, message = invoke(main, folder, "vse", *options(), *OUTPUTS)
    assert code == 0, message
    return results(folder)


def test_keeps_the_best_epoch_and_leaves_no_work(folder):
    _, curve = train(folder)
    rows = [line.split("\t") for line in curve.decode().splitlines()]
    assert rows[0][:4] == ["epoch", "phase", "loss", "val_rsum"]
    losses = ["sum_margin", "max_margin", "max_margin", "max_margin"]
    assert [row[:2] for row in rows[1:]] == [[str(n + 1), loss] for n, loss in enumerate(losses)]
    described = read_checkpoint(folder / "out/vse.safetensors", "vse").description
    best = max(rows[1:], key=lambda row: float(row[3]))
    assert described.epoch == int(best[0])
    assert described.val_rsum == pytest.approx(float(best[3]), rel=1e-5)
    assert set(described.params) == {"loss", "ranking", "seed", "vse"}
    assert not list((folder / "data/.work").iterdir())


def test_kill_9_then_rerun_gives_the_same_bytes(folder, run_stage):
    undisturbed = train(folder)
    for name in ("vse.safetensors", "vse.tsv"):
        (folder / "out" / name).unlink()
    command = [sys.executable, "-m", "stages.train", "vse", *options(), *OUTPUTS]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            if line.startswith("epoch 2"):
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    assert not list((folder / "out").iterdir())
    again = run_stage("train", "vse", *options(), *OUTPUTS, cwd=folder)
    assert "continuing after " in again.stderr
    assert "epoch 2 (" not in again.stderr
    assert results(folder) == undisturbed
    assert not list((folder / "data/.work").iterdir())


@pytest.mark.parametrize(
    ("change", "value"), [("seed", 1), ("vse__margin", 0.3), ("vse__training__clip", 0.1)]
)
def test_what_is_read_decides_the_weights(folder, change, value):
    first = train(folder)
    write_params(folder, **{change: value})
    assert train(folder)[0] != first[0]


def fail(folder, *arguments):
    """Standard error of a run that must end with a plain message."""
    code, message = invoke(main, folder, *arguments, *OUTPUTS)
    assert code == 1, message
    return message


def test_unknown_model(folder):
    message = fail(folder, "vsr", *options())
    assert "model 'vsr': allowed are cca, dp_rnn, dual_path, scan, two_branch, vse" in message


def test_image_without_features(folder):
    ids = [f"train{i}" for i in range(23)]
    write_image_features(folder, ids, np.ones((23, 4), np.float16))
    message = fail(folder, "vse", *options())
    assert "image.h5: no row for train23" in message


def test_region_features_are_refused(folder):
    write_image_features(folder, ["a", "b"], np.ones((2, 3, 4), np.float16))
    message = fail(folder, "vse", *options())
    assert "features of shape (2, 3, 4)" in message
    assert "(N, D)" in message


def test_vectors_of_another_width(folder):
    write_params(folder, vse__word_vectors="pretrained")
    write_words(folder, [f"w{i}" for i in range(12)], dim=5)
    message = fail(folder, "vse", *options())
    assert "word vectors have 5 dimensions, but 6 are asked for" in message


def test_collapse_is_an_error(folder):
    """Equal features give equal image embeddings, which is what a collapsed model gives."""
    ids = [f"{split}{i}" for split, n in (("train", 24), ("val", 8), ("test", 9)) for i in range(n)]
    write_image_features(folder, ids, np.zeros((41, 10), np.float16))
    write_params(folder, vse__training__lr=1e-12)
    message = fail(folder, "vse", *options())
    assert "training has collapsed: for 4 epochs" in message
    assert "raise vse.training.warmup_epochs" in message
    assert not (folder / "out/vse.safetensors").exists()
