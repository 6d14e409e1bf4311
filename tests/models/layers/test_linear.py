"""Small pieces against their plain forms."""

import pytest
import torch

from models.layers.linear import Standardise, at_least_float32, glorot_linear


def test_glorot_linear_has_zero_biases_and_weights_within_its_bound():
    torch.manual_seed(0)
    layer = glorot_linear(30, 20)
    bound = (6 / (30 + 20)) ** 0.5
    assert layer.weight.shape == (20, 30)
    assert not layer.bias.any()
    assert 0.9 * bound < layer.weight.abs().max() <= bound


def test_standardised_features_have_mean_0_and_deviation_1_but_for_constant_ones():
    features = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)) * 3 + 7
    features[:, 2] = 5.0
    layer = Standardise(4)
    torch.testing.assert_close(layer(features), features, rtol=0, atol=0)
    layer.fit(features.mean(0), features.std(0, correction=0))
    found = layer(features)
    torch.testing.assert_close(found.mean(0), torch.zeros(4), rtol=0, atol=1e-5)
    expected = torch.tensor([1.0, 1.0, 0.0, 1.0])
    torch.testing.assert_close(found.std(0, correction=0), expected, rtol=1e-5, atol=1e-6)


def test_the_statistics_are_kept_with_the_weights():
    layer = Standardise(2)
    layer.fit(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 0.0]))
    again = Standardise(2)
    again.load_state_dict(layer.state_dict())
    assert layer.state_dict().keys() == {"mean", "scale"}
    torch.testing.assert_close(again(torch.ones(1, 2)), torch.tensor([[0.0, -1.0]]))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_half_precision_alone_becomes_float32(kind):
    halves = (torch.float16, torch.bfloat16)
    found = at_least_float32(torch.ones(2, dtype=kind))
    assert found.dtype == (torch.float32 if kind in halves else kind)
