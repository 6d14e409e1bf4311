"""Pixels in front of a network: normalised as torchvision does; means are those of a loop."""

import pytest
import torch
from torch import nn
from torchvision.transforms.functional import hflip, normalize

from models.layers.pixels import SeesPixels

MEAN, DEVIATION = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


@pytest.fixture
def seeing() -> SeesPixels:
    network = SeesPixels()
    network.see_through(nn.Flatten(), MEAN, DEVIATION)
    return network


def expected(pixels: torch.Tensor) -> torch.Tensor:
    return normalize(pixels / 255, MEAN, DEVIATION).flatten(1)


def test_pixels_are_normalised_by_channel(seeing: SeesPixels) -> None:
    pixels = torch.randint(256, (2, 3, 4, 4), dtype=torch.uint8)
    torch.testing.assert_close(seeing.image_features(pixels), expected(pixels))


def test_mean_features_are_those_of_all_crops_and_their_mirror_images(seeing: SeesPixels) -> None:
    crops = torch.randint(256, (2, 5, 3, 4, 4), dtype=torch.uint8)
    views = [expected(view) for crop in crops.unbind(1) for view in (crop, hflip(crop))]
    torch.testing.assert_close(seeing.mean_features(crops), torch.stack(views).mean(0))


def test_a_network_of_features_alone_has_no_pixels() -> None:
    network = SeesPixels()
    network.see_through(None, MEAN, DEVIATION)
    assert network.image_cnn is None
    assert not dict(network.named_buffers())
