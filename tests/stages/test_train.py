"""`python -m stages.train vse`: outputs, what decides the weights, and bad input."""

import shutil

import numpy as np
import pytest
from commands import fail
from model_runs import VSE
from tiny_inputs import PATHS, write_image_features, write_inputs

from pipeline.features.feature_file import FeatureFile
from stages.train import main


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    write_inputs(folder)
    VSE.train(folder)
    return folder


def test_keeps_the_best_epoch_and_leaves_no_work(folder):
    curve, described = VSE.curve(folder), VSE.checkpoint(folder).description
    assert list(curve)[:4] == ["epoch", "phase", "loss", "val_rsum"]
    assert curve["phase"].tolist() == ["sum_margin", "max_margin", "max_margin", "max_margin"]
    best = curve.loc[curve["val_rsum"].idxmax()]
    assert described.epoch == best["epoch"]
    assert described.val_rsum == pytest.approx(best["val_rsum"], rel=1e-5)
    assert set(described.params) == {"loss", "ranking", "seed", "vse"}
    assert not list((folder / "data/.work").iterdir())


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("seed", 1),
        ("vse__margin", 0.3),
        ("vse__training__clip", 0.1),
        ("vse__training__schedule", "cosine"),
        ("vse__training__weight_decay", 0.1),
        ("vse__text_pool", "mean"),
        ("vse__text_pool", "gpo"),
        ("vse__text_encoder", "lstm"),
    ],
)
def test_what_is_read_decides_the_weights(folder, change, value):
    first = VSE.results(folder)
    assert VSE.train(folder, **{change: value})[0] != first[0]


def test_the_text_encoder_is_that_of_the_checkpoint(folder):
    """Scores do not depend on what params.yaml says when they are computed."""
    weights = VSE.weights(folder, vse__text_encoder="lstm", vse__text_pool="mean")
    assert "text.lstm.weight_ih_l0" in weights
    VSE.score(folder)
    first = VSE.scores(folder).scores
    VSE.set_params(folder)
    VSE.score(folder)
    assert np.array_equal(VSE.scores(folder).scores, first)
    sizes = VSE.checkpoint(folder).description.architecture
    assert (sizes["text_encoder"], sizes["text_pool"]) == ("lstm", "mean")


def test_what_cannot_be_trained_is_named(folder):
    said = fail(main, folder, "vsr", *VSE.training_command()[1:])
    assert (
        "model 'vsr': allowed are adapter, cca, dp_rnn, dual_path, scan, two_branch, vse, vs"
        in said
    )
    write_image_features(folder, ["a", "b"], np.ones((2, 3, 4), np.float16))
    assert "features of shape (2, 3, 4)" in VSE.refused(folder)


def test_collapse_is_an_error(folder):
    """Equal features give equal image embeddings, which is what a collapsed model gives."""
    shutil.rmtree(folder / "out")
    ids = FeatureFile(folder / PATHS["features"]).ids
    write_image_features(folder, ids, np.zeros((len(ids), 10), np.float16))
    VSE.set_params(folder, training__lr=1e-12)
    message = VSE.refused(folder)
    assert "training has collapsed: for 4 epochs" in message
    assert "raise vse.training.warmup_epochs" in message
    assert not (folder / "out/vse.safetensors").exists()
