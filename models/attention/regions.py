"""Encoders that turn an image's regions into vectors of the joint space, for SCAN and DP-RNN."""

import torch
from torch import Tensor, nn

from models.layers.linear import glorot_linear
from models.layers.standardise import Standardise


class RegionEncoder(nn.Module):
    """One linear layer per region, times DP-RNN's position gate if wanted (Chen and Luo 2020). The
    gate is sigmoid(FC(width, height, centre x, centre y))."""

    def __init__(self, image_dim: int, dim: int, gate: bool) -> None:
        super().__init__()
        self.standardise = Standardise(image_dim)
        self.projection = glorot_linear(image_dim, dim)
        self.gate = glorot_linear(4, dim) if gate else None

    def forward(self, features: Tensor, positions: Tensor) -> Tensor:
        """Regions (B, R, D) to vectors (B, R, K), padding included; positions: (B, R, 4) width,
        height, centre x and centre y as shares of the image."""
        vectors = self.projection(self.standardise(features))
        return vectors if self.gate is None else vectors * torch.sigmoid(self.gate(positions))
