"""SCAN against its equations pair by pair."""

import pytest
import torch
from matching_cases import attended, unit

from models.scan import SCAN, SCANConfig
from pipeline.features.split import Regions, Words

CASES = [(direction, pooling) for direction in ("t2i", "i2t") for pooling in ("mean", "lse")]


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    features = torch.rand(6, 5, 9, generator=generator)
    places = torch.rand(6, 5, 4, generator=generator)
    tokens = torch.randint(1, 20, (6, 4), generator=generator)
    regions = Regions(features, places, torch.tensor([5, 1, 3, 2, 5, 4]))
    return regions, Words(tokens, torch.tensor([4, 1, 3, 2, 4, 4]))


def build(direction="t2i", pooling="mean", **settings):
    torch.manual_seed(0)
    config = SCANConfig(word_dim=7, dim=8, direction=direction, pooling=pooling, **settings)
    return SCAN(config, image_dim=9, vocabulary_size=20)


def scores_of(model, regions, words):
    return model.score(model.embed_images(regions), model.embed_captions(words))


def literal_score(regions, words, direction, pooling, temperature, lse):
    """Lee et al. 2018, eq. 1-10, of regions (R, K) and words (T, K), with attended vectors.

    As in their code every region and word is brought to unit length first.
    """
    regions, words = unit(regions), unit(words)
    queries, contexts = (words, regions) if direction == "t2i" else (regions, words)
    relevance, _ = attended(queries, contexts, temperature)
    return relevance.mean() if pooling == "mean" else (lse * relevance).exp().sum().log() / lse


@pytest.mark.parametrize(("direction", "pooling"), CASES)
def test_equals_the_equations(batch, direction, pooling):
    model = build(direction, pooling, temperature=5.0, lse=3.0)
    (features, positions, counts), (tokens, lengths) = batch
    found = scores_of(model, *batch)
    assert found.shape == (6, 6)
    words, regions = model.text(tokens, lengths), model.regions(features, positions)
    for image in range(6):
        for caption in range(6):
            pair = regions[image, : counts[image]], words[caption, : lengths[caption]]
            expected = literal_score(*pair, direction, pooling, 5.0, 3.0)
            torch.testing.assert_close(found[image, caption], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("direction", "pooling"), CASES)
def test_an_image_without_regions_is_similar_to_nothing(batch, direction, pooling):
    model = build(direction, pooling)
    regions, captions = batch
    counts = regions.counts.clone()
    counts[2] = 0
    scores = scores_of(model, regions._replace(counts=counts), captions)
    if (direction, pooling) != ("t2i", "lse"):  # there each word adds exp(0)
        assert not scores[2].any()
    scores.sum().backward()
    assert all(value.grad.isfinite().all() for value in model.parameters())
