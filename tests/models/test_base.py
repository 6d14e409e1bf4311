"""Scores of a split against one pair at a time."""

import numpy as np
import pytest
import torch
from killed_training import toy_model, toy_split

import models.base


@pytest.fixture
def model():
    torch.manual_seed(0)
    return toy_model()


def test_equals_one_pair_at_a_time(model, monkeypatch):
    monkeypatch.setattr(models.base, "VECTOR_BLOCK", 4)
    split = toy_split(11, 0)
    scores = model.score_split(split)
    matrix = scores.matrix
    assert matrix.shape == (11, 22)
    assert matrix.dtype == np.float32
    assert list(scores.caption_image_ids) == [split.image_ids[i] for i in split.described]
    for image in range(11):
        for caption in range(22):
            with torch.no_grad():
                left = model.embed_images(split.images(np.array([image])))
                right = model.embed_captions(split.captions(np.array([caption])))
                one = model.score(left, right)
            assert matrix[image, caption] == pytest.approx(one.item(), abs=1e-6)
    product = scores.image_embeddings @ scores.caption_embeddings.T
    np.testing.assert_allclose(product, matrix, atol=1e-6)


def test_scores_without_the_training_mode(model):
    seen = []
    model.image_projection.register_forward_hook(lambda layer, *_: seen.append(layer.training))
    for mode in (True, False):
        model.train(mode)
        model.score_split(toy_split(5, 0))
        assert model.training == mode
    assert not any(seen)
