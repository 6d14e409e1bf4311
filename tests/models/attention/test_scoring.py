"""Blockwise scores of a split against one pair at a time."""

import numpy as np
import pytest
import torch
from dp_rnn_cases import CPU, toy_split
from models.scan.network import SCAN
from torch.nn.functional import normalize

from models.attention import scoring as pair_scoring
from models.attention.scoring import caption_blocks, score_pairs

IMAGES = 7


def region_split():
    """An image without regions, captions of unequal lengths."""
    return toy_split((4, 2, 3, 0, 1, 4, 4), words=8)


@pytest.fixture(params=["t2i", "i2t"])
def model(request):
    torch.manual_seed(0)
    return SCAN(5, 9, 4, 5, direction=request.param, pooling="lse", position_gate=True)


@pytest.mark.parametrize("block", [1, 60, 10**6])
def test_equals_one_pair_at_a_time(model, monkeypatch, block):
    monkeypatch.setattr(pair_scoring, "BLOCK_VALUES", block)
    monkeypatch.setattr(pair_scoring, "CAPTION_BLOCK", 4)
    monkeypatch.setattr(pair_scoring, "EMBED_IMAGES", 3)
    monkeypatch.setattr(pair_scoring, "TELL_FROM", 1)
    split = region_split()
    found = score_pairs(model, split, CPU)
    assert found.scores.dtype == np.float32
    assert found.caption_image_ids == [split.image_ids[row] for row in split.described]
    for image in range(IMAGES):
        regions = split.images(np.array([image]))
        for caption in range(len(split.caption_ids)):
            with torch.no_grad():
                words = split.captions(np.array([caption]))
                one = model(regions.features, regions.positions, regions.counts, *words)
            assert found.scores[image, caption] == pytest.approx(one.item(), abs=1e-6)


def test_shortlist_vectors_are_unit_means(model):
    split = region_split()
    found = score_pairs(model, split, CPU)
    regions = split.images(np.arange(IMAGES))
    vectors = model.embed_images(regions.features, regions.positions, regions.counts).detach()
    for image, count in enumerate(regions.counts):
        mean = normalize(vectors[image, :count], dim=1).sum(0)
        expected = normalize(mean, dim=0).numpy()
        np.testing.assert_allclose(found.image_embeddings[image], expected, atol=1e-6)
    assert not found.image_embeddings[3].any()
    for caption in range(len(split.caption_ids)):
        tokens, lengths = split.captions(np.array([caption]))
        words = model.embed_captions(tokens, lengths).detach()
        expected = normalize(words[0].mean(0), dim=0).numpy()
        np.testing.assert_allclose(found.caption_embeddings[caption], expected, atol=1e-6)


def test_no_call_goes_beyond_the_bound(model, monkeypatch):
    """Blocks hold at most BLOCK_VALUES products of a region and a word."""
    monkeypatch.setattr(pair_scoring, "BLOCK_VALUES", 200)
    monkeypatch.setattr(pair_scoring, "CAPTION_BLOCK", 4)
    sizes, score = [], model.score

    def measured(regions, counts, words, lengths):
        sizes.append(regions[..., 0].numel() * words[..., 0].numel())
        return score(regions, counts, words, lengths)

    model.score = measured
    score_pairs(model, region_split(), CPU)
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
    full, half = (score_pairs(model, split, CPU, kind).scores for kind in ("fp32", "bf16"))
    regions = split.images(np.arange(IMAGES))
    with torch.no_grad():
        images = model.embed_images(regions.features, regions.positions, regions.counts)
        for caption in range(len(split.caption_ids)):
            tokens, lengths = split.captions(np.array([caption]))
            words = model.embed_captions(tokens, lengths)
            with torch.autocast("cpu", torch.bfloat16):
                found = model.score(images, regions.counts, words, lengths)
            np.testing.assert_allclose(half[:, caption], found[:, 0], atol=1e-6)
    assert 0 < np.abs(half - full).max() < 0.05
