"""The models on regions through `stages.train`."""

import os
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from model_runs import DP_RNN, SCAN, VSE_INFINITY
from sklearn.preprocessing import StandardScaler
from tiny_inputs import DIM, REGIONS, SLOTS, WORDS, write_regions

from pipeline.features.feature_file import FeatureFile

RUNS = {"scan": SCAN, "dp_rnn": DP_RNN, "vse_infinity": VSE_INFINITY}
MODELS = tuple(RUNS)
# as short as a training can be in which every part is used
SHORT = {"scan": 2, "dp_rnn": {"matching": 1, "recurrent": 1, "all": 0}, "vse_infinity": 2}


@pytest.fixture(scope="module")
def baseline(world, tmp_path_factory):
    """Weights of short trainings, with which those of other parameters are compared."""
    folder = shutil.copytree(world, tmp_path_factory.mktemp("baseline"), dirs_exist_ok=True)
    return {model: RUNS[model].weights(folder, training__epochs=SHORT[model]) for model in MODELS}


def same(first, second):
    assert first.keys() == second.keys()
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("model", MODELS)
def test_repeats_byte_for_byte_and_leaves_no_work(trained, model):
    first = RUNS[model].results(trained)
    assert not os.listdir(trained / "data/.work")
    assert RUNS[model].train(trained) == first
    described = RUNS[model].checkpoint(trained).description
    assert set(described.params) == {"loss", "ranking", "seed", model}
    assert described.architecture["image_dim"] == DIM
    assert described.architecture["vocabulary_size"] == len(WORDS) + 2
    assert described.inputs["features_weights_sha256"] == "f" * 64


@pytest.mark.parametrize("model", MODELS)
def test_constants_of_the_training_regions_travel_with_the_weights(folder, baseline, model):
    weights = baseline[model]
    file = FeatureFile(folder / REGIONS)
    rows = file.rows([name for name in file.ids if name.startswith("train")])
    features, counts = file.read(rows).astype(np.float64), file.read(rows, "counts")
    oracle = StandardScaler().fit(features[np.arange(SLOTS) < counts[:, None]])
    means = [value for name, value in weights.items() if name.endswith("standardise.mean")]
    assert len(means) == (2 if model == "dp_rnn" else 1)
    for mean in means:
        np.testing.assert_allclose(mean, oracle.mean_, atol=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_words_may_begin_with_the_vocabularys_vectors(folder, model):
    changes = {"training__lr": 1e-12, "training__epochs": SHORT[model]}
    given = RUNS[model].weights(folder, word_vectors="pretrained", **changes)
    vectors = FeatureFile(folder / "vocabulary/vectors.h5").load()
    tables = [name for name, value in given.items() if value.shape == vectors.shape]
    assert len(tables) == (2 if model == "dp_rnn" else 1)
    for name in tables:
        np.testing.assert_allclose(given[name][2:], vectors[2:], atol=1e-6)


@pytest.mark.parametrize(
    ("model", "change", "value"),
    [
        ("scan", "direction", "i2t"),
        ("scan", "pooling", "lse"),
        ("scan", "temperature", 2.0),
        ("scan", "position_gate", True),
        ("scan", "standardise_images", False),
        ("scan", "loss", "sum_margin"),
        ("scan", "training__reduction", "mean"),
        ("vse_infinity", "image_mlp", False),
        ("vse_infinity", "image_pool", "max"),
        ("vse_infinity", "text_pool", "mean"),
        ("vse_infinity", "drop_regions", 0.0),
        ("vse_infinity", "drop_words", 0.2),
        ("vse_infinity", "standardise_images", False),
        ("dp_rnn", "matching", "scan"),
        ("dp_rnn", "vectors", "unit"),
        ("dp_rnn", "order", "random"),
        ("dp_rnn", "temperature_objects", 2.0),
        ("dp_rnn", "temperature_words", 2.0),
        ("dp_rnn", "beta_words", 2.0),
        ("dp_rnn", "beta_objects", 2.0),
        ("dp_rnn", "candidates", 1),
        ("dp_rnn", "position_gate", False),
        ("dp_rnn", "margin", 0.4),
        ("dp_rnn", "loss", "sum_margin"),
    ],
)
def test_what_is_read_decides_the_weights(folder, baseline, model, change, value):
    changes = {"training__epochs": SHORT[model], change: value}
    found = RUNS[model].weights(folder, **changes)
    assert found.keys() != baseline[model].keys() or not same(found, baseline[model])


def test_phases_of_dp_rnn(trained, folder):
    """The last phase is kept, and the matching alone learns before the recurrent network."""
    curve = DP_RNN.curve(trained)
    epochs = ["matching", "matching", "recurrent", "all"]
    assert curve["phase"].tolist() == [*epochs, *epochs, "all"]
    assert curve["part"].tolist() == ["word"] * 4 + ["object"] * 4 + ["together"]
    assert curve["epoch"].tolist() == [1, 2, 3, 4, 1, 2, 3, 4, 4]
    assert DP_RNN.checkpoint(trained).description.epoch == 4
    DP_RNN.train(folder, training__epochs=SHORT["dp_rnn"])
    assert DP_RNN.checkpoint(folder).description.epoch == 2
    assert bool(DP_RNN.checkpoint(folder).weights["recurrence"])


def test_the_validation_shortlist_changes_what_is_measured_once_there_is_recurrence(folder):
    one, all_of_them = (
        DP_RNN.train(folder, validation_shortlist=count)[1].splitlines()[1:] for count in (1, 8)
    )
    for start in (0, 4):  # of each network
        matching = slice(start, start + 2)
        assert one[matching] == all_of_them[matching]
        assert one[start + 2] != all_of_them[start + 2]
    losses = [[line.split(b"\t")[3] for line in lines] for lines in (one, all_of_them)]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("model", ["scan", "dp_rnn"])
def test_positions_need_boxes(folder, model):
    write_regions(folder, has_boxes=0, model="imported from scan_npy")
    imported = {"regions__source": "scan_npy", "regions__path": "."}
    RUNS[model].set_params(folder, position_gate=True, **imported)
    message = RUNS[model].refused(folder)
    assert f"{model}.position_gate needs the boxes of the regions" in message
    assert "imported from scan_npy" in message
    assert not (folder / "out").exists()
    changes = {"position_gate": False, "training__epochs": SHORT[model]}
    RUNS[model].train(folder, **imported, **changes)


def test_both_networks_end_as_each_alone(folder):
    """Own clipping (which bites at 0.5), own optimiser: the bytes of their weights, and their rows
    of the curve. The last row is of both: the mean of their scores."""
    changes = {
        "training__epochs": {"matching": 1, "recurrent": 1, "all": 4},
        "training__clip": 0.5,
        "training__lr": 0.03,
        "training__lr_step": 2,
        "loss": "infonce",  # whose temperature is learnt, by each network its own
    }
    both = DP_RNN.weights(folder, **changes)
    curve = DP_RNN.curve(folder)
    last = curve.iloc[-1]
    described = DP_RNN.checkpoint(folder).description
    epoch, val_rsum = described.epoch, described.val_rsum
    losses = []
    for name in ("word", "object"):
        alone = DP_RNN.weights(folder, orientation=name, **changes)
        own = {key: value for key, value in both.items() if not key.startswith("towers.")}
        own |= {key: value for key, value in both.items() if key.startswith(f"towers.{name}.")}
        assert same(own, alone)
        rows = curve[curve["part"] == name].reset_index(drop=True)
        expected = DP_RNN.curve(folder).drop(columns="sha256")
        pd.testing.assert_frame_equal(rows[expected.columns], expected, check_dtype=False)
        kept = expected.loc[expected["best"].iloc[-1] - 1]
        losses.append(kept["loss"])
        entropy = f"val_{name}_entropy"
        assert last[entropy] == kept[entropy]
    assert last["part"] == "together"
    assert last["epoch"] == last["best"] == epoch
    assert last["loss"] == pytest.approx(sum(losses), rel=1e-5)
    assert last["val_rsum"] == pytest.approx(val_rsum, rel=1e-5)
