"""The mean over a map's positions, and behind it the maximum."""

import torch
from torch import Tensor


def pool(maps: Tensor) -> Tensor:
    """(B, C, P) to (B, 2C)."""
    return torch.cat([maps.mean(2), maps.amax(2)], dim=1)
