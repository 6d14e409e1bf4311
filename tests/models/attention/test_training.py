"""SCAN and DP-RNN through `stages.train`."""

import itertools
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from region_runs import (
    MODELS,
    checkpoint,
    fail,
    kept_weights,
    results,
    set_params,
    train,
    train_command,
)
from sklearn.preprocessing import StandardScaler
from tiny_inputs import DIM, REGIONS, ROOT, SLOTS, WORDS, write_inputs, write_regions

from models.losses import LOSSES
from pipeline.storage.features import FeatureFile
from stages.train import main as train_stage


@pytest.fixture
def folder(tmp_path):
    write_inputs(tmp_path)
    write_regions(tmp_path)
    return tmp_path


def same(first, second):
    assert first.keys() == second.keys()
    return all(torch.equal(first[name], second[name]) for name in first)


def phases(folder, model):
    lines = (folder / f"out/{model}.tsv").read_text().splitlines()
    return [line.split("\t")[1] for line in lines[1:]]


@pytest.mark.parametrize("model", MODELS)
def test_repeats_byte_for_byte_and_leaves_no_work(folder, model):
    first = train(folder, model)
    assert not os.listdir(folder / "data/.work")
    assert train(folder, model) == first
    described = checkpoint(folder, model).description
    assert set(described.params) == {"loss", "ranking", "seed", model}
    assert described.architecture["image_dim"] == DIM
    assert described.architecture["vocabulary_size"] == len(WORDS) + 2
    assert described.inputs["features_weights_sha256"] == "f" * 64


@pytest.mark.parametrize(
    ("model", "line"), [("scan", "epoch 2 (max_margin)"), ("dp_rnn", "epoch 2 (recurrent)")]
)
def test_kill_9_then_rerun_gives_the_same_bytes(folder, run_stage, model, line):
    """DP-RNN dies with one epoch of the recurrent network behind it and one before it."""
    changes = {"dp_rnn": {"training__epochs": {"matching": 1, "recurrent": 2, "all": 1}}}
    undisturbed = train(folder, model, **changes.get(model, {}))
    for kind in ("safetensors", "tsv"):
        (folder / "out" / f"{model}.{kind}").unlink()
    with subprocess.Popen(
        [sys.executable, "-m", "stages.train", *train_command(model)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for told in process.stderr:
            if told.startswith(line):
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    assert not os.listdir(folder / "out")
    again = run_stage("train", *train_command(model), cwd=folder)
    assert "continuing after " in again.stderr
    assert line not in again.stderr
    assert results(folder, model) == undisturbed


@pytest.mark.parametrize("model", MODELS)
def test_constants_of_the_training_regions_travel_with_the_weights(folder, model):
    weights = kept_weights(folder, model)
    file = FeatureFile(folder / REGIONS)
    rows = file.rows([name for name in file.ids if name.startswith("train")])
    features, counts = file.read(rows).astype(np.float64), file.read(rows, "counts")
    oracle = StandardScaler().fit(features[np.arange(SLOTS) < counts[:, None]])
    means = [value for name, value in weights.items() if name.endswith("standardise.mean")]
    assert len(means) == {"scan": 1, "dp_rnn": 2}[model]
    for mean in means:
        np.testing.assert_allclose(mean, oracle.mean_, atol=1e-6)
    weights = kept_weights(folder, model, standardise_images=False)
    means = [value for name, value in weights.items() if name.endswith("standardise.mean")]
    assert not any(mean.any() for mean in means)


@pytest.mark.parametrize("model", MODELS)
def test_words_may_begin_with_the_vocabularys_vectors(folder, model):
    changes = {"training__lr": 1e-12}
    drawn = kept_weights(folder, model, **changes)
    given = kept_weights(folder, model, word_vectors="pretrained", **changes)
    vectors = FeatureFile(folder / "vocabulary/vectors.h5").load()
    tables = [name for name, value in given.items() if value.shape == vectors.shape]
    assert len(tables) == {"scan": 1, "dp_rnn": 2}[model]
    for name in tables:
        np.testing.assert_allclose(given[name][2:], vectors[2:], atol=1e-6)
        assert not np.allclose(drawn[name][2:], vectors[2:], atol=1e-2)


@pytest.mark.parametrize("model", MODELS)
def test_the_loss_selects_the_negatives(folder, model):
    """Without warm-up every loss gives weights of its own."""
    kept = [
        kept_weights(folder, model, loss=name, ranking__k=2, training__warmup_epochs=0)
        for name in LOSSES
    ]
    for one, other in itertools.combinations(kept, 2):
        assert not same(one, other)


def test_scan_begins_with_sum_margin(folder):
    train(folder, "scan", loss="knn_margin")
    assert phases(folder, "scan") == ["sum_margin", "knn_margin", "knn_margin"]


@pytest.mark.parametrize(
    ("model", "change", "value"),
    [
        ("scan", "direction", "i2t"),
        ("scan", "pooling", "lse"),
        ("scan", "temperature", 2.0),
        ("scan", "position_gate", True),
        ("scan", "margin", 0.4),
        ("scan", "training__reduction", "mean"),
        ("scan", "training__clip", 0.01),
        ("dp_rnn", "matching", "scan"),
        ("dp_rnn", "order", "random"),
        ("dp_rnn", "temperature_objects", 2.0),
        ("dp_rnn", "temperature_words", 2.0),
        ("dp_rnn", "beta_words", 2.0),
        ("dp_rnn", "beta_objects", 2.0),
        ("dp_rnn", "candidates", 1),
        ("dp_rnn", "position_gate", False),
        ("dp_rnn", "margin", 0.4),
    ],
)
def test_what_is_read_decides_the_weights(folder, model, change, value):
    first = kept_weights(folder, model)
    second = kept_weights(folder, model, **{change: value})
    assert first.keys() != second.keys() or not same(first, second)


def test_phases_of_dp_rnn(folder):
    """The last phase is kept, and the matching alone learns before the recurrent network."""
    train(folder, "dp_rnn")
    assert phases(folder, "dp_rnn") == ["matching", "matching", "recurrent", "all"]
    assert checkpoint(folder, "dp_rnn").description.epoch == 4
    epochs = {"matching": 1, "recurrent": 1, "all": 0}
    train(folder, "dp_rnn", training__epochs=epochs)
    assert checkpoint(folder, "dp_rnn").description.epoch == 2
    assert bool(checkpoint(folder, "dp_rnn").weights["recurrence"])


def test_the_recurrent_phase_trains_the_recurrent_network_alone(folder):
    """After it everything else is as the matching alone left it."""
    one = {"orientation": "word", "training__lr_step": 9}
    epochs = {"matching": 1, "recurrent": 0, "all": 0}
    begun = kept_weights(folder, "dp_rnn", training__epochs=epochs, recurrent=False, **one)
    ended = kept_weights(folder, "dp_rnn", training__epochs=epochs | {"recurrent": 1}, **one)
    after = kept_weights(folder, "dp_rnn", training__epochs=epochs | {"all": 1}, **one)
    own = {name for name in ended if ".recurrent." in name}
    assert own == ended.keys() - begun.keys()
    names = begun.keys() - {"recurrence"}
    assert names
    assert all(torch.equal(begun[name], ended[name]) for name in names)
    assert not all(torch.equal(begun[name], after[name]) for name in names)


def test_the_validation_shortlist_changes_what_is_measured_once_there_is_recurrence(folder):
    one, all_of_them = (
        train(folder, "dp_rnn", validation_shortlist=count)[1].splitlines()[1:] for count in (1, 8)
    )
    assert one[:2] == all_of_them[:2]  # the matching alone
    assert one[2] != all_of_them[2]
    assert [line.split(b"\t")[2] for line in one] == [line.split(b"\t")[2] for line in all_of_them]


@pytest.mark.parametrize("model", MODELS)
def test_positions_need_boxes(folder, model):
    write_regions(folder, has_boxes=0, model="imported from scan_npy")
    set_params(folder, model, position_gate=True)
    message = fail(train_stage, folder, *train_command(model))
    assert f"{model}.position_gate needs the boxes of the regions" in message
    assert "imported from scan_npy" in message
    assert not (folder / "out").exists()
    train(folder, model, position_gate=False)


@pytest.mark.parametrize("model", MODELS)
def test_image_features_are_no_regions(folder, model):
    set_params(folder, model)
    message = fail(train_stage, folder, *train_command(model, features="image.h5"))
    assert "image.h5: not a file of regions: it has no boxes, sizes, counts" in message
