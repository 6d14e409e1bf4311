"""Evaluation with early selection against the model on single pairs."""

import numpy as np
import pytest
import torch
from dp_rnn_cases import enter, network, toy_split

import models.base
import models.dp_rnn.model as dp_rnn


@pytest.fixture(scope="module")
def pairs():
    """Three scores of every pair, image by image and caption by caption, none of them padded
    beside another: of the vectors, of the matching alone, and with recurrence."""
    model, split = network(), toy_split()
    shape = len(split.image_ids), len(split.caption_ids)
    early, plain, full = (np.empty(shape) for _ in range(3))
    with torch.no_grad():
        for i, j in np.ndindex(shape):
            image = model.embed_images(split.images(np.array([i])))
            caption = model.embed_captions(split.captions(np.array([j])))
            sides = list(zip(model.networks, image, caption, strict=True))
            early[i, j] = sum(tower.early_scores(*pair).item() for tower, *pair in sides)
            plain[i, j] = np.mean([tower.score(*pair).item() for tower, *pair in sides])
            full[i, j] = model.score(image, caption).item()
    return early, plain, full


@pytest.mark.parametrize("shortlist", [1, 3, 7, 100])
@pytest.mark.parametrize("sizes", [(64, 128, 2048), (3, 2, 5), (1, 1, 1)])
def test_equals_single_pairs_in_any_blocks(pairs, monkeypatch, shortlist, sizes):
    for name, size in zip(("CAPTION_BLOCK", "IMAGE_BLOCK", "PAIR_BLOCK"), sizes, strict=True):
        monkeypatch.setattr(dp_rnn, name, size)
    monkeypatch.setattr(models.base, "IMAGE_BLOCK", sizes[1])
    result = network(shortlist).score_split(toy_split())
    early, plain, full = pairs
    kept = early.argsort(0).argsort(0) >= len(early) - shortlist
    expected = np.where(kept, full, plain - 2)
    np.testing.assert_allclose(result.scores, expected, rtol=0, atol=1e-5)
    assert ((result.scores >= -1).sum(0) == min(shortlist, 7)).all()
    np.testing.assert_allclose(np.linalg.norm(result.image_embeddings, axis=1), 1, atol=1e-5)


def test_scores_by_log_sum_exp_are_moved_below_all_others():
    """They may lie beyond 1: a move by 2 would leave some above those that were looked at."""
    settings = {"matching": "scan", "pooling": "lse", "lse": 0.3}
    model = network(2, **settings)
    result = model.score_split(toy_split()).scores
    model.shortlist = 7
    every = model.score_split(toy_split()).scores
    selected = np.isclose(result, every, atol=1e-5)
    assert (selected.sum(0) == 2).all()
    assert np.ptp(every) > 2
    assert result[~selected].max() <= result[selected].min()
    enter(model, "matching")
    model.shortlist = None
    plain = model.score_split(toy_split()).scores
    moves = (plain - result)[~selected]
    np.testing.assert_allclose(moves, moves[0], atol=1e-5)


@pytest.mark.parametrize("shortlist", [None, 2, 7])
def test_without_recurrence_the_shortlist_decides_the_order_alone(pairs, shortlist):
    model = network(shortlist)
    enter(model, "matching")
    result = model.score_split(toy_split())
    early, plain, _ = pairs
    kept = early.argsort(0).argsort(0) >= len(early) - (shortlist or len(early))
    np.testing.assert_allclose(result.scores, np.where(kept, plain, plain - 2), rtol=0, atol=1e-5)
