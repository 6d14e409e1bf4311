"""Features brought to mean 0 and deviation 1 by constants that travel with the weights."""

import torch
from torch import Tensor, nn


class Standardise(nn.Module):
    """(x - mean) / scale per feature (D,), the identity until `fit` is called."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.mean: Tensor
        self.scale: Tensor
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))

    def fit(self, mean: Tensor, deviation: Tensor) -> None:
        """Take mean and standard deviation, (D,) each; constant features are centred, not
        scaled."""
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(deviation > 0, deviation, torch.ones_like(deviation)))

    def forward(self, features: Tensor) -> Tensor:
        """Features (B, D) to standardised features (B, D)."""
        return (features - self.mean) / self.scale
