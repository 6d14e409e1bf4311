"""SCAN and DP-RNN through `stages.score` and `stages.evaluate`."""

import json
from dataclasses import replace

import numpy as np
import pytest
from model_runs import DP_RNN, SCAN, SHORTLIST
from tiny_inputs import write_regions

from models.scan import SCAN as Network
from pipeline.features.data import Inputs

SHORT = {"matching": 1, "recurrent": 1, "all": 0}


def test_the_checkpoint_says_which_form_of_the_network_it_is(folder):
    options = {"direction": "i2t", "pooling": "lse", "position_gate": True}
    SCAN.train(folder, **options, training__epochs=1, training__warmup_epochs=0)
    network = Network.from_checkpoint(SCAN.checkpoint(folder), "scan")
    assert (network.config.direction, network.config.pooling) == ("i2t", "lse")
    SCAN.score(folder)
    data = Network.open_data(network.config, Inputs(**SCAN.paths(folder)))
    expected = network.score_split(data.split("test"))
    np.testing.assert_array_equal(SCAN.scores(folder).scores, expected.scores)


def test_the_shortlist_is_an_option_of_scoring(folder):
    DP_RNN.train(folder, orientation="object", training__epochs=SHORT)
    DP_RNN.score(folder)
    assert ((DP_RNN.scores(folder).scores >= -1).sum(0) == SHORTLIST).all()


def test_other_regions_than_those_of_the_training_are_refused(trained):
    write_regions(trained, params='{"boxes": 36}', weights_sha256="c" * 64)
    message = SCAN.not_scored(trained)
    assert 'features params {"boxes": 36} (trained with {})' in message
    assert "features weights sha256 cccc" in message


def test_options_of_other_models_are_refused(trained):
    message = SCAN.not_scored(trained, "--shortlist", "3")
    assert "model 'scan' does not take the option --shortlist" in message
    message = replace(DP_RNN, scoring=()).not_scored(trained)
    assert "model 'dp_rnn' needs the option --shortlist" in message
    message = SCAN.not_scored(trained, "--keep", "embeddings")
    assert "model 'scan' does not take the option --keep" in message


def test_without_recurrence_only_the_matching_is_trained_and_a_shortlist_is_an_option(folder):
    DP_RNN.train(folder, recurrent=False, training__epochs=SHORT | {"all": 1})
    curve = DP_RNN.curve(folder)
    assert set(curve["phase"]) == {"matching"}
    assert curve["part"].tolist() == ["word"] * 2 + ["object"] * 2 + ["together"]
    weights = DP_RNN.checkpoint(folder).weights
    assert not any(".recurrent." in name for name in weights)
    assert not bool(weights["recurrence"])
    metrics = json.loads(DP_RNN.evaluate(folder))
    assert "shortlist" not in metrics
    before = DP_RNN.scores(folder).scores
    assert (np.abs(before) <= 1).all()
    metrics = json.loads(replace(DP_RNN, scoring=(*DP_RNN.scoring, "--cut")).evaluate(folder))
    scores = DP_RNN.scores(folder)
    kept = scores.scores >= -1
    assert (kept.sum(0) == SHORTLIST).all()
    np.testing.assert_array_equal(scores.scores, np.where(kept, before, before - 2))
    true = np.equal.outer(scores.image_groups, scores.caption_groups) & kept
    held = {"i2t": 100 * true.any(1).mean(), "t2i": 100 * true.any(0).mean()}
    assert metrics["shortlist"] == SHORTLIST
    assert metrics["naive"]["in_shortlist"] == pytest.approx(held, abs=1e-4)
