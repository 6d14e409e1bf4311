"""Validation of the networks: each judged by itself, and how even their weights are."""

import math

import numpy as np
import pytest
import torch
from dp_rnn_cases import CPU, network, toy_split

from models.dp_rnn.network import DPRNN
from models.dp_rnn.scoring import score_selecting
from models.dp_rnn.validation import (
    Validation,
    attention_entropy,
    entropy_share,
    judge_networks,
    validate,
)
from pipeline.training.curve import validation_columns


def test_entropy_share_by_hand():
    weights = torch.tensor([[0.5, 0.5, 0, 0], [1.0, 0, 0, 0], [0.2, 0.3, 0.5, 0], [1.0, 0, 0, 0]])
    found = entropy_share(weights, torch.tensor([2, 4, 3, 1]))
    by_hand = -sum(p * math.log(p) for p in (0.2, 0.3, 0.5)) / math.log(3)
    assert found.tolist() == pytest.approx([1, 0, by_hand])  # the last has one place


@pytest.mark.parametrize("recurrent", [False, True])
def test_entropies_of_a_split_are_those_of_its_pairs(recurrent):
    model, split = network(), toy_split()
    model.enter_phase("all" if recurrent else "matching")
    for tower in model.networks():
        torch.nn.init.normal_(tower.match.attention.direction, std=40.0)
        single = []
        for row, image in enumerate(split.described):
            regions = split.images(np.array([image]))
            images = tower.embed_images(regions.features, regions.positions, regions.counts)
            captions = tower.embed_captions(*split.captions(np.array([row])))
            side, pair = captions, torch.zeros(1, 1).long()
            if not tower.match.by_words:
                side = images
                if recurrent:
                    order = tower.order(images, captions, pair)
                    side = images._replace(vectors=tower.reread(images, order, pair)[:, 0])
            if side.lengths[0] < 2:
                continue
            weights = tower.match.attention(side.vectors, side.lengths)[0, : side.lengths[0]]
            entropy = -(weights * weights.log()).sum().item()
            single.append(entropy / math.log(side.lengths[0]))
        found = attention_entropy(tower, split, CPU, recurrent)
        assert found == pytest.approx(np.mean(single), abs=1e-5)
        assert found < 0.97


@pytest.mark.parametrize(
    ("settings", "columns"),
    [
        ({}, {"val_word_entropy", "val_object_entropy"}),
        ({"beta_objects": 0.0}, {"val_word_entropy"}),
        ({"orientation": "object"}, {"val_object_entropy"}),
        ({"matching": "scan", "pooling": "lse"}, set()),
    ],
)
def test_even_weights_have_no_entropy_to_show(settings, columns):
    assert validate(network(**settings), toy_split(), CPU, 3).entropies.keys() == columns


def test_each_network_is_scored_as_if_it_were_alone():
    model, split = network(), toy_split()
    found = validate(model, split, CPU, 3)
    for name in ("word", "object"):
        alone = DPRNN(5, 9, 4, 6, orientation=name)
        alone.load_state_dict(
            {
                key: value
                for key, value in model.state_dict().items()
                if key.startswith((f"towers.{name}.", "recurrence"))
            }
        )
        scores = score_selecting(alone, split, CPU, 3)
        np.testing.assert_array_equal(found.scores[name].scores, scores.scores)


def test_the_best_epoch_of_each_is_by_its_own_scores_and_one_collapse_is_told():
    model, split = network(), toy_split()
    found = validate(model, split, CPU, 3)
    judged = judge_networks(found, [])
    own = {name: validation_columns(one)["val_rsum"] for name, one in found.scores.items()}
    assert judged.scores == own
    assert not judged.collapsed
    mean = np.mean([one.scores for one in found.scores.values()], axis=0)
    for name, flat in found.scores.items():
        even = type(flat)(**{**vars(flat), "scores": np.zeros_like(mean)})
        told = judge_networks(Validation(found.scores | {name: even}, {}), [])
        assert f"the {name} network" in told.collapsed
