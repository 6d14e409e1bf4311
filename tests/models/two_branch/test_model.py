"""The two-branch network through `stages.train` and `stages.score`."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler
from tiny_inputs import (
    DIM,
    ROOT,
    SENTENCES,
    WORDS,
    invoke,
    options,
    write_image_features,
    write_inputs,
    write_params,
    write_sentences,
)

from models.two_branch.network import TwoBranch
from pipeline.corpus.tables import in_split, load_captions
from pipeline.scores.file import read_scores
from pipeline.storage.checkpoint import read_checkpoint
from pipeline.storage.features import FeatureFile
from stages.check_params import main as check_params
from stages.score import main as score_stage
from stages.train import main

INPUTS = options(text=SENTENCES)
OUTPUTS = ["--output", "out/two_branch.safetensors", "--curve", "out/two_branch.tsv"]
COMMAND = ["two_branch", *INPUTS, *OUTPUTS]
SCORE = ["two_branch", *INPUTS, "--checkpoint", "out/two_branch.safetensors"]
SCORE += ["--output", "out/two_branch.h5"]
ONE_DIRECTIONAL = {"sentence_to_image": 0.0, "image_image": 0.0, "sentence_sentence": 0.0}


@pytest.fixture
def folder(tmp_path):
    write_inputs(tmp_path)
    write_sentences(tmp_path)
    return tmp_path


def set_params(folder, **changes):
    """changes: keys of the section `two_branch`, `__` for a dot; also loss and ranking__..."""
    outside = ("loss", "ranking")
    named = {
        key if key.split("__")[0] in outside else f"two_branch__{key}": value
        for key, value in changes.items()
    }
    write_params(folder, **named)


def train(folder, **changes):
    """Checkpoint and curve of a training that must succeed, as bytes."""
    set_params(folder, **changes)
    code, message = invoke(main, folder, *COMMAND)
    assert code == 0, message
    return results(folder)


def results(folder):
    names = ("two_branch.safetensors", "two_branch.tsv")
    return [(folder / "out" / name).read_bytes() for name in names]


def fail(command, folder, *arguments):
    """Standard error of a run that must end with a plain message."""
    code, message = invoke(command, folder, *arguments)
    assert code == 1, message
    assert message.startswith("error: ")
    return message


def checkpoint(folder):
    return read_checkpoint(folder / "out/two_branch.safetensors", "two_branch")


def test_keeps_the_best_epoch_and_leaves_no_work(folder):
    _, curve = train(folder)
    header, *rows = [line.split("\t") for line in curve.decode().splitlines()]
    recalls = ["val_i2t_r1", "val_i2t_r10", "val_t2i_r1", "val_t2i_r10"]
    assert header == ["epoch", "phase", "loss", "val_rsum", *recalls, "val_spread", "lr"]
    losses = ["sum_margin", "max_margin", "max_margin", "max_margin"]
    assert [row[:2] for row in rows] == [[str(n + 1), loss] for n, loss in enumerate(losses)]
    described = checkpoint(folder).description
    best = max(rows, key=lambda row: float(row[3]))
    assert described.epoch == int(best[0])
    assert described.val_rsum == pytest.approx(float(best[3]), rel=1e-5)
    assert set(described.params) == {"loss", "ranking", "seed", "two_branch"}
    assert described.architecture == {
        "image_dim": DIM, "sentence_dim": len(WORDS), "hidden": 16, "dim": 8, "batch_norm": 1
    }  # fmt: skip
    assert not os.listdir(folder / "data/.work")


def test_learns_what_captions_say(folder):
    """rsum is 600 at most, and 318 at chance."""
    _, curve = train(folder, loss="sum_margin", branches="linear", training__epochs=20)
    losses = [float(line.split("\t")[2]) for line in curve.decode().splitlines()[1:]]
    assert losses[-1] < 0.3 * losses[0]
    assert checkpoint(folder).description.val_rsum > 450


def test_kill_9_then_rerun_gives_the_same_bytes(folder, run_stage):
    undisturbed = train(folder)
    for name in ("two_branch.safetensors", "two_branch.tsv"):
        (folder / "out" / name).unlink()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "stages.train", *COMMAND],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stderr:
            if line.startswith("epoch 2"):
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    assert not os.listdir(folder / "out")
    again = run_stage("train", *COMMAND, cwd=folder)
    assert "continuing after " in again.stderr
    assert "epoch 2 (" not in again.stderr
    assert results(folder) == undisturbed
    assert not os.listdir(folder / "data/.work")


@pytest.mark.parametrize("branches", ["linear", "nonlinear"])
def test_scores_are_the_models_cosines(folder, branches):
    train(folder, branches=branches)
    assert invoke(score_stage, folder, *SCORE)[0] == 0
    trained = checkpoint(folder)
    model = TwoBranch(**trained.description.architecture).eval()
    model.load_state_dict(trained.weights)
    images, sentences = FeatureFile(folder / "image.h5"), FeatureFile(folder / SENTENCES)
    for split in ("val", "test"):
        scores = read_scores(folder / "out/two_branch.h5", split)
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


def test_linear_variant_is_one_layer_a_branch(folder):
    train(folder, branches="linear", dim=5)
    trained = checkpoint(folder)
    assert trained.description.architecture["hidden"] == 0
    shapes = {name: tuple(value.shape) for name, value in trained.weights.items()}
    assert {name: shape for name, shape in shapes.items() if "branch" in name} == {
        "image_branch.0.weight": (5, DIM),
        "image_branch.0.bias": (5,),
        "sentence_branch.0.weight": (5, len(WORDS)),
        "sentence_branch.0.bias": (5,),
    }


def test_batch_norm_can_be_left_out(folder):
    train(folder, batch_norm=False)
    assert "image_branch.3.bias" in checkpoint(folder).weights  # without batch norm it has one
    train(folder, batch_norm=True)
    assert "image_branch.4.running_var" in checkpoint(folder).weights


@pytest.mark.parametrize("sides", [(True, False), (False, True)])
def test_constants_of_the_training_split_travel_with_the_weights(folder, sides):
    train(folder, standardise_images=sides[0], standardise_sentences=sides[1])
    weights = checkpoint(folder).weights
    for name, path, used in zip(("image", "sentence"), ("image.h5", SENTENCES), sides, strict=True):
        file = FeatureFile(folder / path)
        ids = [name for name in file.ids if name.startswith("train")]
        oracle = StandardScaler().fit(file.read(file.rows(ids)).astype(np.float64))
        mean, scale = (oracle.mean_, oracle.scale_) if used else (0.0, 1.0)
        np.testing.assert_allclose(weights[f"{name}_standardise.mean"], mean, atol=1e-6)
        np.testing.assert_allclose(weights[f"{name}_standardise.scale"], scale, rtol=1e-5)


def test_one_directional_weights(folder):
    """Only the first term is left, which does not read structure_k."""
    off = {f"weights__{key}": value for key, value in ONE_DIRECTIONAL.items()}
    all_terms, one, same = (
        kept_weights(folder, **changes) for changes in ({}, off, off | {"structure_k": 1})
    )
    assert any(not torch.equal(all_terms[name], one[name]) for name in one)
    assert all(torch.equal(one[name], same[name]) for name in one)


def test_knn_margin_begins_with_sum_margin(folder):
    curve = train(folder, loss="knn_margin")[1].decode().splitlines()[1:]
    phases = [line.split("\t")[1] for line in curve]
    assert phases == ["sum_margin", "knn_margin", "knn_margin", "knn_margin"]


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("margin", 0.3),
        ("structure_k", 1),
        ("dropout", 0.1),
        ("weights__sentence_sentence", 0.5),
        ("training__optimiser", "sgd"),
        ("training__weight_decay", 0.1),
        ("ranking__k", 1),
        ("training__reduction", "mean"),
    ],
)
def test_what_is_read_decides_the_weights(folder, change, value):
    first, second = kept_weights(folder), kept_weights(folder, **{change: value})
    assert any(not torch.equal(first[name], second[name]) for name in first)


def kept_weights(folder, **changes):
    """Weights of the better of two epochs, the first with sum_margin, then knn_margin."""
    train(folder, **{"loss": "knn_margin", "training__epochs": 2, **changes})
    return checkpoint(folder).weights


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "fisher"}, "sentences model fisher (trained with tfidf)"),
        ({"params": '{"seed": 1}'}, 'sentences params {"seed": 1} (trained with {})'),
    ],
)
def test_sentences_of_another_encoding_are_not_scored(folder, change, words):
    train(folder)
    write_sentences(folder, **change)
    message = fail(score_stage, folder, *SCORE)
    assert "two_branch.safetensors: does not fit its inputs" in message
    assert words in message
    assert not (folder / "out/two_branch.h5").exists()


def test_region_features_are_refused(folder):
    write_image_features(folder, ["a", "b"], np.ones((2, 3, 4), np.float16))
    message = fail(main, folder, *COMMAND)
    assert "image.h5: features of shape (2, 3, 4); this model takes one vector per row" in message


def test_a_vocabulary_is_no_sentence_features(folder):
    message = fail(main, folder, "two_branch", *options(), *OUTPUTS)
    assert "vocabulary: no such file" in message


def test_weights_that_are_all_zero(folder):
    set_params(folder, weights__image_to_sentence=0.0, **{
        f"weights__{key}": value for key, value in ONE_DIRECTIONAL.items()
    })  # fmt: skip
    message = fail(check_params, folder, "--output", "params.ok")
    assert "two_branch.weights: all are 0; at least one term must have another weight" in message
    assert not (folder / "params.ok").exists()
