"""The region encoder against its formula, one region at a time, standardised by scikit-learn."""

import pytest
import torch
from sklearn.preprocessing import StandardScaler

from models.attention.encoders import RegionEncoder


@pytest.mark.parametrize("gate", [False, True])
def test_equals_the_formula(gate):
    torch.manual_seed(0)
    encoder = RegionEncoder(7, 5, gate)
    features, positions = torch.rand(3, 4, 7), torch.rand(3, 4, 4)
    spread, means = torch.tensor([1e-3, 50, 0]), torch.tensor([0, -300, 1])
    features[..., 1:4] = features[..., 1:4] * spread + means  # the last one is constant
    rows = features.flatten(0, 1).double()
    scaler = StandardScaler().fit(rows)
    mean, deviation = torch.from_numpy(scaler.mean_), torch.from_numpy(scaler.var_).sqrt()
    encoder.standardise.fit(mean.float(), deviation.float())
    found = encoder(features, positions)
    assert found.shape == (3, 4, 5)
    features = torch.from_numpy(scaler.transform(rows)).view(3, 4, 7).float()
    layer = encoder.projection
    for image in range(3):
        for region in range(4):
            vector = layer.weight @ features[image, region] + layer.bias
            if gate:
                logits = encoder.gate.weight @ positions[image, region] + encoder.gate.bias
                vector = vector / (1 + (-logits).exp())
            torch.testing.assert_close(found[image, region], vector, rtol=0, atol=1e-4)
