"""Encoders that turn an image's regions into vectors of the joint space.

Apart from the models that use them: SCAN and DP-RNN read the same regions.
"""

import torch
from torch import nn

from models.layers.linear import glorot_linear
from models.layers.standardise import Standardise


class RegionEncoder(nn.Module):
    """One linear layer per region, with DP-RNN's position gate if wanted (Chen and Luo 2020).

    The gate is sigmoid(FC(width, height, centre x, centre y)), multiplied with the features.

    Args:
        image_dim: D of the region features.
        dim: K of the vectors.
        gate: whether there is a position gate.
    """

    def __init__(self, image_dim: int, dim: int, gate: bool) -> None:
        super().__init__()
        self.standardise = Standardise(image_dim)
        self.projection = glorot_linear(image_dim, dim)
        self.gate = glorot_linear(4, dim) if gate else None

    def forward(self, features: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Regions (B, R, D) at positions (B, R, 4) to vectors (B, R, K).

        positions: width, height, centre x and centre y as shares of the image; not read without a
        gate. Padded regions become vectors like any other: the caller knows their number.
        """
        vectors = self.projection(self.standardise(features))
        return vectors if self.gate is None else vectors * torch.sigmoid(self.gate(positions))
