"""Features brought to mean 0 and deviation 1 by constants that travel with the weights.

A module of its own, because every model on fixed features may want it, and a checkpoint must not
be used with other constants than those of its training.
"""

import torch
from torch import nn


class Standardise(nn.Module):
    """(x - mean) / scale per feature, the identity until `fit` is called. dim: D features."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.mean: torch.Tensor
        self.scale: torch.Tensor
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))

    def fit(self, mean: torch.Tensor, deviation: torch.Tensor) -> None:
        """Take mean and standard deviation, (D,) each; constant features are centred, not scaled.

        What follows stays a function of the features of the same kind; only its conditioning
        changes, which matters when layers of different magnitude are concatenated.
        """
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(deviation > 0, deviation, torch.ones_like(deviation)))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Features (B, D) to standardised features (B, D)."""
        return (features - self.mean) / self.scale
