"""Standardise against scikit-learn."""

import torch
from sklearn.preprocessing import StandardScaler

from models.layers.standardise import Standardise


def test_equals_scikit_learn():
    """Large means, different magnitudes and one constant column."""
    generator = torch.Generator().manual_seed(0)
    scale = torch.tensor([1e-3, 1.0, 50.0, 1.0])
    features = torch.randn(40, 4, generator=generator) * scale + torch.tensor([0, 7.0, -300, 0])
    features[:, 3] = 0.25
    scaler = StandardScaler().fit(features.double().numpy())
    layer = Standardise(4)
    mean, deviation = torch.from_numpy(scaler.mean_), torch.from_numpy(scaler.var_).sqrt()
    layer.fit(mean.float(), deviation.float())
    expected = torch.from_numpy(scaler.transform(features.double().numpy())).float()
    torch.testing.assert_close(layer(features), expected, rtol=0, atol=1e-4)
    assert not layer(features)[:, 3].any()
