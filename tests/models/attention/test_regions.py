"""The region encoder against its formula, one region at a time."""

import pytest
import torch

from models.attention.regions import RegionEncoder


@pytest.mark.parametrize("gate", [False, True])
def test_equals_the_formula(gate):
    torch.manual_seed(0)
    encoder = RegionEncoder(7, 5, gate)
    features, positions = torch.rand(3, 4, 7), torch.rand(3, 4, 4)
    mean, deviation = features.flatten(0, 1).mean(0), features.flatten(0, 1).std(0)
    encoder.standardise.fit(mean, deviation)
    found = encoder(features, positions)
    assert found.shape == (3, 4, 5)
    features = (features - mean) / deviation
    layer = encoder.projection
    for image in range(3):
        for region in range(4):
            vector = layer.weight @ features[image, region] + layer.bias
            if gate:
                logits = encoder.gate.weight @ positions[image, region] + encoder.gate.bias
                vector = vector / (1 + (-logits).exp())
            torch.testing.assert_close(found[image, region], vector, rtol=0, atol=1e-6)
