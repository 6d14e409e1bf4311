"""Standardise against scikit-learn, and what a checkpoint keeps of it."""

import pytest
import torch
from sklearn.preprocessing import StandardScaler

from models.layers.standardise import Standardise


@pytest.fixture
def features():
    """Large means, different magnitudes and one constant column."""
    generator = torch.Generator().manual_seed(0)
    scale = torch.tensor([1e-3, 1.0, 50.0, 1.0])
    values = torch.randn(40, 4, generator=generator) * scale + torch.tensor([0.0, 7.0, -300.0, 0.0])
    values[:, 3] = 0.25
    return values


def test_equals_scikit_learn_with_a_constant_column(features):
    scaler = StandardScaler().fit(features.double().numpy())
    layer = Standardise(4)
    mean, deviation = torch.from_numpy(scaler.mean_), torch.from_numpy(scaler.var_).sqrt()
    layer.fit(mean.float(), deviation.float())
    expected = torch.from_numpy(scaler.transform(features.double().numpy())).float()
    torch.testing.assert_close(layer(features), expected, rtol=0, atol=1e-4)
    assert not layer(features)[:, 3].any()


def test_constants_travel_with_the_weights_and_are_not_trained(features):
    layer, other = Standardise(4), Standardise(4)
    layer.fit(features.mean(0), features.std(0))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(layer(features), other(features))
    assert torch.equal(Standardise(4)(features), features)  # the identity until it is fitted
    assert not list(layer.parameters())
