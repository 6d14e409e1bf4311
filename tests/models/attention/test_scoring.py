"""Blockwise scores of a split against one pair at a time."""

import numpy as np
import pytest
import torch
from dp_rnn_cases import toy_split
from torch.nn.functional import normalize

import models.base
import models.scan
from models.base import caption_blocks
from models.scan import SCAN, SCANConfig

IMAGES = 7


def region_split():
    """An image without regions, captions of unequal lengths."""
    return toy_split((4, 2, 3, 0, 1, 4, 4), words=8)


@pytest.fixture(params=["t2i", "i2t"])
def model(request):
    torch.manual_seed(0)
    options = {"direction": request.param, "pooling": "lse", "position_gate": True}
    config = SCANConfig(word_dim=4, dim=5, **options)
    return SCAN(config, image_dim=5, vocabulary_size=9)


@pytest.mark.parametrize("block", [1, 60, 10**6])
def test_equals_one_pair_at_a_time(model, monkeypatch, block):
    monkeypatch.setattr(models.scan, "BLOCK_PRODUCTS", block)
    monkeypatch.setattr(models.base, "CAPTION_BLOCK", 4)
    monkeypatch.setattr(models.base, "IMAGE_BLOCK", 3)
    monkeypatch.setattr(models.base, "PROGRESS_FROM", 1)
    split = region_split()
    found = model.score_split(split)
    assert found.scores.dtype == np.float32
    assert found.caption_image_ids == [split.image_ids[row] for row in split.described]
    for image in range(IMAGES):
        regions = split.images(np.array([image]))
        for caption in range(len(split.caption_ids)):
            with torch.no_grad():
                words = split.captions(np.array([caption]))
                one = model.score(model.embed_images(regions), model.embed_captions(words))
            assert found.scores[image, caption] == pytest.approx(one.item(), abs=1e-6)


def test_shortlist_vectors_are_unit_means(model):
    split = region_split()
    found = model.score_split(split)
    regions = split.images(np.arange(IMAGES))
    vectors = model.embed_images(regions).vectors.detach()
    for image, count in enumerate(regions.counts):
        mean = normalize(vectors[image, :count], dim=1).sum(0)
        expected = normalize(mean, dim=0).numpy()
        np.testing.assert_allclose(found.image_embeddings[image], expected, atol=1e-6)
    assert not found.image_embeddings[3].any()
    for caption in range(len(split.caption_ids)):
        words = model.embed_captions(split.captions(np.array([caption]))).vectors.detach()
        expected = normalize(words[0].mean(0), dim=0).numpy()
        np.testing.assert_allclose(found.caption_embeddings[caption], expected, atol=1e-6)


def test_no_call_goes_beyond_the_bound(model, monkeypatch):
    """Blocks hold at most BLOCK_PRODUCTS products of a region and a word."""
    monkeypatch.setattr(models.scan, "BLOCK_PRODUCTS", 200)
    monkeypatch.setattr(models.base, "CAPTION_BLOCK", 4)
    sizes, score = [], model.score_part

    def measured(images, captions):
        sizes.append(images.vectors[..., 0].numel() * captions.vectors[..., 0].numel())
        return score(images, captions)

    model.score_part = measured
    model.score_split(region_split())
    assert max(sizes) <= 200
    assert len(sizes) > 4


def test_blocks_hold_every_caption_once_by_length():
    split = region_split()
    blocks = list(caption_blocks(split, 2))
    assert sorted(np.concatenate(blocks)) == list(range(len(split.caption_ids)))
    lengths = [set(split.captions.lengths[block].tolist()) for block in blocks]
    assert all(len(same) == 1 for same in lengths)  # nothing is padded
    assert lengths == sorted(lengths, key=min)
    sizes = np.bincount(split.captions.lengths)
    assert max(sizes) > 2
    assert len(blocks) == ((sizes + 1) // 2).sum()


def test_bf16_is_the_score_under_autocast(model):
    split = region_split()
    full = model.score_split(split).scores
    training = model.config.training.model_copy(update={"precision": "bf16"})
    model.config = model.config.model_copy(update={"training": training})
    half = model.score_split(split).scores
    model.eval()
    with torch.no_grad():
        images = model.embed_images(split.images(np.arange(IMAGES)))
        for caption in range(len(split.caption_ids)):
            words = model.embed_captions(split.captions(np.array([caption])))
            with torch.autocast("cpu", torch.bfloat16):
                found = model.score(images, words)
            np.testing.assert_allclose(half[:, caption], found[:, 0], atol=1e-6)
    assert 0 < np.abs(half - full).max() < 0.05
