"""The two-branch network through `stages.train` and `stages.score`."""

import os
import shutil

import numpy as np
import pytest
import torch
from commands import fail
from model_runs import TWO_BRANCH as RUN
from sklearn.preprocessing import StandardScaler
from tiny_inputs import (
    DIM,
    SENTENCES,
    WORDS,
    write_image_features,
    write_inputs,
    write_sentences,
)

from models.two_branch.network import TwoBranch
from pipeline.corpus.tables import in_split, load_captions
from pipeline.storage.features import FeatureFile
from stages.check_params import main as check_params

ONE_DIRECTIONAL = {"sentence_to_image": 0.0, "image_image": 0.0, "sentence_sentence": 0.0}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """All that the stages before training leave."""
    folder = tmp_path_factory.mktemp("world")
    write_inputs(folder)
    write_sentences(folder)
    return folder


@pytest.fixture(scope="module")
def baseline(world, tmp_path_factory):
    """The weights that those of other parameters are compared with."""
    folder = tmp_path_factory.mktemp("baseline")
    shutil.copytree(world, folder, dirs_exist_ok=True)
    return kept_weights(folder)


@pytest.fixture
def folder(world, tmp_path):
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_keeps_the_best_epoch_and_leaves_no_work(folder):
    _, curve = RUN.train(folder)
    header, *rows = [line.split("\t") for line in curve.decode().splitlines()]
    recalls = ["val_i2t_r1", "val_i2t_r10", "val_t2i_r1", "val_t2i_r10"]
    assert header == ["epoch", "phase", "loss", "val_rsum", *recalls, "val_spread", "lr", "sha256"]
    losses = ["sum_margin", "max_margin", "max_margin", "max_margin"]
    assert [row[:2] for row in rows] == [[str(n + 1), loss] for n, loss in enumerate(losses)]
    described = RUN.checkpoint(folder).description
    best = max(rows, key=lambda row: float(row[3]))
    assert described.epoch == int(best[0])
    assert described.val_rsum == pytest.approx(float(best[3]), rel=1e-5)
    assert set(described.params) == {"loss", "ranking", "seed", "two_branch"}
    assert described.architecture == {
        "image_dim": DIM, "sentence_dim": len(WORDS), "hidden": 16, "dim": 8, "batch_norm": 1
    }  # fmt: skip
    assert not os.listdir(folder / "data/.work")


@pytest.mark.parametrize("branches", ["linear", "nonlinear"])
def test_scores_are_the_models_cosines(folder, branches):
    RUN.train(folder, branches=branches)
    RUN.score(folder)
    trained = RUN.checkpoint(folder)
    model = TwoBranch(**trained.description.architecture).eval()
    model.load_state_dict(trained.weights)
    images, sentences = FeatureFile(folder / "image.h5"), FeatureFile(folder / SENTENCES)
    for split in ("val", "test"):
        scores = RUN.scores(folder, split)
        table = in_split(load_captions(folder / "corpus/captions.parquet"), split)
        assert list(scores.caption_ids) == table["caption_id"].tolist()
        assert list(scores.image_ids) == list(dict.fromkeys(scores.caption_image_ids))
        for column, caption in enumerate(scores.caption_ids):
            for row, image in enumerate(scores.image_ids):
                one = torch.from_numpy(images.read(images.rows([image]))).float()
                other = torch.from_numpy(sentences.read(sentences.rows([caption]))).float()
                with torch.inference_mode():
                    x, y = model(one, other)
                expected = (x / x.norm() * y / y.norm()).sum().item()
                assert scores.scores[row, column] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("sides", [(True, False), (False, True)])
def test_constants_of_the_training_split_travel_with_the_weights(folder, sides):
    standardised = {"standardise_images": sides[0], "standardise_sentences": sides[1]}
    weights = kept_weights(folder, **standardised)
    for name, path, used in zip(("image", "sentence"), ("image.h5", SENTENCES), sides, strict=True):
        file = FeatureFile(folder / path)
        ids = [name for name in file.ids if name.startswith("train")]
        oracle = StandardScaler().fit(file.read(file.rows(ids)).astype(np.float64))
        mean, scale = (oracle.mean_, oracle.scale_) if used else (0.0, 1.0)
        np.testing.assert_allclose(weights[f"{name}_standardise.mean"], mean, atol=1e-6)
        np.testing.assert_allclose(weights[f"{name}_standardise.scale"], scale, rtol=1e-5)


def test_one_directional_weights(folder, baseline):
    """Only the first term is left, which does not read structure_k."""
    off = {f"weights__{key}": value for key, value in ONE_DIRECTIONAL.items()}
    one, same = (kept_weights(folder, **changes) for changes in (off, off | {"structure_k": 1}))
    assert any(not torch.equal(baseline[name], one[name]) for name in one)
    assert all(torch.equal(one[name], same[name]) for name in one)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("margin", 0.3),
        ("structure_k", 1),
        ("dropout", 0.1),
        ("batch_norm", False),
        ("weights__sentence_sentence", 0.5),
        ("training__optimiser", "sgd"),
        ("training__weight_decay", 0.1),
        ("ranking__k", 1),
        ("training__reduction", "mean"),
    ],
)
def test_what_is_read_decides_the_weights(folder, baseline, change, value):
    found = kept_weights(folder, **{change: value})
    shared = baseline.keys() & found.keys()
    assert any(not torch.equal(baseline[name], found[name]) for name in shared)


def kept_weights(folder, **changes):
    """Weights of the better of two epochs, the first with sum_margin, then knn_margin."""
    return RUN.weights(folder, **{"loss": "knn_margin", "training__epochs": 2, **changes})


def test_sentences_of_another_encoding_are_not_scored(folder):
    RUN.train(folder)
    write_sentences(folder, model="fisher", params='{"seed": 1}')
    message = RUN.not_scored(folder)
    assert "two_branch.safetensors: does not fit its inputs" in message
    assert "sentences model fisher (trained with tfidf)" in message
    assert 'sentences params {"seed": 1} (trained with {})' in message


def test_weights_that_are_all_zero(folder):
    RUN.set_params(folder, weights__image_to_sentence=0.0, **{
        f"weights__{key}": value for key, value in ONE_DIRECTIONAL.items()
    })  # fmt: skip
    message = fail(check_params, folder, "--output", "params.ok")
    assert "two_branch.weights: all are 0; at least one term must have another weight" in message
    assert not (folder / "params.ok").exists()


def test_learns_what_captions_say(folder):
    """rsum is 600 at most, and 318 at chance."""
    _, curve = RUN.train(folder, loss="sum_margin", branches="linear", training__epochs=20)
    losses = [float(line.split("\t")[2]) for line in curve.decode().splitlines()[1:]]
    assert losses[-1] < 0.3 * losses[0]
    assert RUN.checkpoint(folder).description.val_rsum > 450


def test_region_features_are_refused(folder):
    write_image_features(folder, ["a", "b"], np.ones((2, 3, 4), np.float16))
    message = RUN.refused(folder)
    assert "image.h5: features of shape (2, 3, 4); this model takes one vector per row" in message
