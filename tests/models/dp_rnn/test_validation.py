"""Validation of the networks: each judged by itself, and how even their weights are."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from dp_rnn_cases import enter, network, toy_split

from models.dp_rnn.model import DPRNN, entropy_share, mean_entropy
from pipeline.training.curve import validation_columns


def test_entropy_share_by_hand():
    weights = torch.tensor([[0.5, 0.5, 0, 0], [1.0, 0, 0, 0], [0.2, 0.3, 0.5, 0], [1.0, 0, 0, 0]])
    found = entropy_share(weights, torch.tensor([2, 4, 3, 1]))
    by_hand = -sum(p * math.log(p) for p in (0.2, 0.3, 0.5)) / math.log(3)
    assert found.tolist() == pytest.approx([1, 0, by_hand])  # the last has one place


@pytest.mark.parametrize("recurrent", [False, True])
def test_entropies_of_a_split_are_those_of_its_pairs(recurrent):
    model, split = network(), toy_split()
    enter(model, "all" if recurrent else "matching")
    for tower in model.networks:
        torch.nn.init.normal_(tower.match.attention.direction, std=40.0)
        single = []
        for row, image in enumerate(split.described):
            images = tower.embed_images(split.images(np.array([image])))
            captions = tower.embed_captions(split.captions(np.array([row])))
            side, pair = captions, torch.zeros(1, 1).long()
            if not tower.match.by_words:
                side = images
                if recurrent:
                    order = tower.order(images, captions, pair)
                    side = images._replace(vectors=tower.read_in_order(images, order, pair)[:, 0])
            if side.lengths[0] < 2:
                continue
            weights = tower.match.attention(side.vectors, side.lengths)[0, : side.lengths[0]]
            entropy = -(weights * weights.log()).sum().item()
            single.append(entropy / math.log(side.lengths[0]))
        found = mean_entropy(tower, split, recurrent)
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
    found = network(**settings).validate(toy_split()).columns
    assert {name for name in found if name.endswith("_entropy")} == columns


def test_each_network_is_scored_as_if_it_were_alone():
    model, split = network(3), toy_split()
    matrices = []
    for name in ("word", "object"):
        alone = network(3, orientation=name)
        prefixes = (f"towers.{name}.", "recurrence")
        alone.load_state_dict(
            {key: value for key, value in model.state_dict().items() if key.startswith(prefixes)}
        )
        part = model.single(name)
        scores = part.score_split(split)
        np.testing.assert_array_equal(scores.scores, alone.score_split(split).scores)
        assert part.validate(split) == alone.validate(split)
        matrices.append(scores.scores)
    mean = replace(scores, scores=np.mean(matrices, axis=0))
    assert validation_columns(mean).items() <= model.validate(split).columns.items()


@pytest.mark.parametrize("name", ["word", "object"])
def test_a_collapsed_network_is_named(monkeypatch, name):
    model, split = network(), toy_split()
    part = model.single(name)
    assert not part.validate(split).collapsed
    flat = replace(part.score_split(split), scores=np.zeros((7, 14), np.float32))
    monkeypatch.setattr(DPRNN, "score_split", lambda model, val: flat)
    found = part.validate(split)
    assert found.collapsed.startswith(f"the {name} network's validation scores are nearly equal")
    assert model.validate(split).collapsed.startswith("the validation scores are nearly equal")
