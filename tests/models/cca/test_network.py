"""CCA as a module: the formula, what is stored, and rows that have nothing to say."""

import numpy as np
import pytest
import torch

from models.cca.network import CCA


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    shapes = ((7,), (7, 3), (5,), (5, 3))
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.fixture
def model(parts):
    model = CCA(7, 5, 3)
    model.initialise(*map(torch.from_numpy, parts), torch.tensor([0.9, 0.5, 0.1]).double() ** 4)
    return model


def test_embeddings_are_scaled_projections_of_unit_length(model, parts):
    """(x - mean) W rho^p, divided by its norm, a row at a time in float64."""
    rng = np.random.default_rng(1)
    images, sentences = (rng.standard_normal((4, width)).astype(np.float32) for width in (7, 5))
    embedded = [
        model.embed_images(torch.from_numpy(images)),
        model.embed_captions(torch.from_numpy(sentences), torch.ones(4)),
    ]
    for rows, mean, weights, found in zip(
        (images, sentences), parts[::2], parts[1::2], embedded, strict=True
    ):
        for row, got in zip(rows, found.numpy(), strict=True):
            expected = (row - mean).astype(np.float64) @ weights * np.array([0.9, 0.5, 0.1]) ** 4
            np.testing.assert_allclose(got, expected / np.linalg.norm(expected), atol=1e-5)
    scores = model(torch.from_numpy(images), torch.from_numpy(sentences))
    torch.testing.assert_close(scores, embedded[0] @ embedded[1].T)


def test_a_row_equal_to_the_mean_is_zero_and_not_nan(model, parts):
    images = torch.from_numpy(np.stack([parts[0], parts[0] + 1]))
    embedded = model.embed_images(images)
    assert not embedded[0].any()
    assert embedded[1].norm().item() == pytest.approx(1)
    assert torch.isfinite(model(images, torch.from_numpy(parts[2][None]))).all()
