"""Networks for tests of backbones."""

import torch
from torch import nn

from models.backbone.network import classifier


def images(count: int = 2, size: int = 64) -> torch.Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(1))


def lively(name: str) -> nn.Module:
    """A classifier whose batch norms are not the identity."""
    network = classifier(name, seed=3)
    generator = torch.Generator().manual_seed(5)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
                assert tensor is not None
                tensor.data.uniform_(0.5, 1.5, generator=generator)
    return network
