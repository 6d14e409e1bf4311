"""`python -m stages.train vse`: outputs, what decides the weights, and bad input."""

import shutil

import numpy as np
import pytest
from commands import fail
from model_runs import VSE
from tiny_inputs import PATHS, write_image_features, write_inputs

from pipeline.storage.features import FeatureFile
from stages.train import main


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """All that the stages before training leave, and a training."""
    folder = tmp_path_factory.mktemp("world")
    write_inputs(folder)
    VSE.train(folder)
    return folder


@pytest.fixture
def trained(both, tmp_path):
    return shutil.copytree(both, tmp_path, dirs_exist_ok=True)


def test_keeps_the_best_epoch_and_leaves_no_work(trained):
    _, curve = VSE.results(trained)
    rows = [line.split("\t") for line in curve.decode().splitlines()]
    assert rows[0][:4] == ["epoch", "phase", "loss", "val_rsum"]
    losses = ["sum_margin", "max_margin", "max_margin", "max_margin"]
    assert [row[:2] for row in rows[1:]] == [[str(n + 1), loss] for n, loss in enumerate(losses)]
    described = VSE.checkpoint(trained).description
    best = max(rows[1:], key=lambda row: float(row[3]))
    assert described.epoch == int(best[0])
    assert described.val_rsum == pytest.approx(float(best[3]), rel=1e-5)
    assert set(described.params) == {"loss", "ranking", "seed", "vse"}
    assert not list((trained / "data/.work").iterdir())


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("seed", 1),
        ("vse__margin", 0.3),
        ("vse__training__clip", 0.1),
        ("vse__text_pool", "mean"),
        ("vse__text_encoder", "lstm"),
    ],
)
def test_what_is_read_decides_the_weights(trained, change, value):
    first = VSE.results(trained)
    assert VSE.train(trained, **{change: value})[0] != first[0]


def test_the_text_encoder_is_that_of_the_checkpoint(trained):
    """Scores do not depend on what params.yaml says when they are computed."""
    weights = VSE.weights(trained, vse__text_encoder="lstm", vse__text_pool="mean")
    assert "text.lstm.weight_ih_l0" in weights
    VSE.score(trained)
    first = VSE.scores(trained).scores
    VSE.set_params(trained)
    VSE.score(trained)
    assert np.array_equal(VSE.scores(trained).scores, first)
    sizes = VSE.checkpoint(trained).description.architecture
    assert (sizes["text_encoder"], sizes["text_pool"]) == ("lstm", "mean")


def test_what_cannot_be_trained_is_named(trained):
    message = fail(main, trained, "vsr", *VSE.training_command()[1:])
    assert "model 'vsr': allowed are cca, dp_rnn, dual_path, scan, two_branch, vse" in message
    write_image_features(trained, ["a", "b"], np.ones((2, 3, 4), np.float16))
    assert "features of shape (2, 3, 4)" in VSE.refused(trained)


def test_collapse_is_an_error(trained):
    """Equal features give equal image embeddings, which is what a collapsed model gives."""
    shutil.rmtree(trained / "out")
    ids = FeatureFile(trained / PATHS["features"]).ids
    write_image_features(trained, ids, np.zeros((len(ids), 10), np.float16))
    VSE.set_params(trained, training__lr=1e-12)
    message = VSE.refused(trained)
    assert "training has collapsed: for 4 epochs" in message
    assert "raise vse.training.warmup_epochs" in message
    assert not (trained / "out/vse.safetensors").exists()
