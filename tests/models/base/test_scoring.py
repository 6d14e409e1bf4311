"""Scores of a split against one pair at a time."""

import numpy as np
import pytest
import torch
from killed_training import toy_split
from models.vse.network import VSE

from models.base import scoring
from models.base.scoring import score_vectors


@pytest.fixture
def model():
    torch.manual_seed(0)
    return VSE(6, 8, 4, 5, 5)


def test_equals_one_pair_at_a_time(model, monkeypatch):
    monkeypatch.setattr(scoring, "EMBED_BATCH", 4)
    split = toy_split(11, 0)
    scores = score_vectors(model, split, torch.device("cpu"))
    matrix = scores.matrix
    assert matrix.shape == (11, 22)
    assert matrix.dtype == np.float32
    assert list(scores.caption_image_ids) == [split.image_ids[i] for i in split.described]
    for image in range(11):
        for caption in range(22):
            with torch.no_grad():
                one = model(split.images(np.array([image])), *split.captions(np.array([caption])))
            assert matrix[image, caption] == pytest.approx(one.item(), abs=1e-6)
    product = scores.image_embeddings @ scores.caption_embeddings.T
    np.testing.assert_allclose(product, matrix, atol=1e-6)


def test_scores_without_the_training_mode(model):
    seen = []
    model.image_projection.register_forward_hook(lambda layer, *_: seen.append(layer.training))
    for mode in (True, False):
        model.train(mode)
        score_vectors(model, toy_split(5, 0), torch.device("cpu"))
        assert model.training == mode
    assert not any(seen)
