"""VSE: unit embeddings and cosine scores."""

import pytest
import torch

from models.vse import VSE, VSEConfig
from pipeline.features.split import Words


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(6, 9, generator=generator)
    tokens = torch.randint(1, 20, (6, 4), generator=generator)
    return images, Words(tokens, torch.tensor([4, 1, 3, 2, 4, 4]))


def build(hidden, dim):
    torch.manual_seed(0)
    return VSE(VSEConfig(word_dim=7, hidden=hidden, dim=dim), image_dim=9, vocabulary_size=20)


@pytest.mark.parametrize(("hidden", "dim"), [(8, 8), (5, 8)])
def test_embeddings_are_unit_rows_and_scores_cosines(batch, hidden, dim):
    model, (images, words) = build(hidden, dim), batch
    sides = model.embed_images(images), model.embed_captions(words)
    left, right = (model.index(side) for side in sides)
    assert left.shape == right.shape == (6, dim)
    # Sun et al. 2019, section 3.3: 1024 states, d = 1024, no layer between
    assert bool(list(model.text_projection.parameters())) == (hidden != dim)
    torch.testing.assert_close(left.norm(dim=1), torch.ones(6))
    torch.testing.assert_close(right.norm(dim=1), torch.ones(6))
    projected = images @ model.image_projection.weight.T + model.image_projection.bias
    states = model.text_projection(model.text(words.ids, words.lengths))
    cosine = torch.nn.functional.cosine_similarity(projected[:, None], states[None], dim=2)
    torch.testing.assert_close(model.score(*sides), cosine, rtol=0, atol=1e-6)


def test_images_are_standardised_before_they_are_projected(batch):
    model, images = build(8, 8), batch[0]
    mean, deviation = images.mean(0), images.std(0)
    expected = model.embed_images((images - mean) / deviation)
    model.image_standardise.fit(mean, deviation)
    torch.testing.assert_close(model.embed_images(images), expected, rtol=0, atol=1e-5)
