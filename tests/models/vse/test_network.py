"""VSE: unit embeddings, cosine scores, and what reduced precision may change."""

import pytest
import torch
from losses import pair_loss
from sklearn.preprocessing import StandardScaler

from models.vse.network import VSE


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    return (
        torch.rand(6, 9, generator=generator),
        torch.randint(1, 20, (6, 4), generator=generator),
        torch.tensor([4, 1, 3, 2, 4, 4]),
    )


@pytest.mark.parametrize(("hidden", "dim"), [(8, 8), (5, 8)])
def test_embeddings_are_unit_rows_and_scores_cosines(batch, hidden, dim):
    torch.manual_seed(0)
    model = VSE(9, 20, 7, hidden, dim)
    images, tokens, lengths = batch
    left, right = model.embed_images(images), model.embed_captions(tokens, lengths)
    assert left.shape == right.shape == (6, dim)
    torch.testing.assert_close(left.norm(dim=1), torch.ones(6))
    torch.testing.assert_close(right.norm(dim=1), torch.ones(6))
    projected = images @ model.image_projection.weight.T + model.image_projection.bias
    states = model.text_projection(model.text(tokens, lengths))
    cosine = torch.nn.functional.cosine_similarity(projected[:, None], states[None], dim=2)
    torch.testing.assert_close(model(images, tokens, lengths), cosine, rtol=0, atol=1e-6)


def test_the_state_is_the_embedding_when_widths_agree():
    """Sun et al. 2019, section 3.3: 1024 states, d = 1024, no layer between."""
    assert not list(VSE(9, 20, 7, 8, 8).text_projection.parameters())
    assert list(VSE(9, 20, 7, 5, 8).text_projection.parameters())


def test_scores_are_float32_inside_autocast(batch):
    torch.manual_seed(0)
    model = VSE(9, 20, 7, 8, 8)
    exact = model(*batch)
    with torch.autocast("cpu", torch.bfloat16):
        scores = model(*batch)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, exact, rtol=0, atol=0.02)


def test_every_weight_learns(batch):
    torch.manual_seed(0)
    model = VSE(9, 20, 7, 5, 8)
    pair_loss("sum_margin", 0.2)(model(*batch), torch.arange(6)).backward()
    for name, value in model.named_parameters():
        assert value.grad is not None, name
        assert value.grad.any(), name


def test_standardised_images_are_a_linear_function_of_the_features(batch):
    """scikit-learn's StandardScaler before the same projection, constant features included."""
    torch.manual_seed(0)
    model = VSE(9, 20, 7, 8, 8)
    images = batch[0].clone()
    images[:, 3] = 0.25
    scaler = StandardScaler().fit(images.double().numpy())
    deviation = torch.from_numpy(scaler.var_).sqrt().float()
    model.standardise_images(torch.from_numpy(scaler.mean_).float(), deviation)
    scaled = torch.from_numpy(scaler.transform(images.double().numpy())).float()
    expected = torch.nn.functional.normalize(model.image_projection(scaled), dim=1)
    torch.testing.assert_close(model.embed_images(images), expected, rtol=0, atol=1e-5)
    assert {"image_standardise.mean", "image_standardise.scale"} <= set(model.state_dict())
