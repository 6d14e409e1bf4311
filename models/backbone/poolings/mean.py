"""The mean over a map's positions."""

from torch import Tensor


def pool(maps: Tensor) -> Tensor:
    """(B, C, P) to (B, C)."""
    return maps.mean(2)
