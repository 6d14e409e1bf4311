"""Small pieces that several models share."""

import torch
from torch import Tensor, nn
from torch.nn import functional


def glorot_linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with Glorot's uniform weights and zero biases.

    Args:
        inputs: width of the vectors it takes.
        outputs: width of those it gives.

    Returns:
        The layer; its weights are drawn from torch's global generator.
    """
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def l2_normalise(vectors: Tensor) -> Tensor:
    """Rows (B, K) divided by their L2 norms, at least float32; a row of zeros stays zero."""
    return functional.normalize(at_least_float32(vectors), dim=1)


def length_mask(lengths: Tensor, width: int, device: torch.device) -> Tensor:
    """Which places of padded sequences are not padding.

    Args:
        lengths: (...) how many places of each sequence exist, from its beginning.
        width: places that the sequences are padded to.
        device: of the result.

    Returns:
        Bool (..., width).
    """
    return torch.arange(width, device=device) < lengths.to(device)[..., None]


def at_least_float32(vectors: Tensor) -> Tensor:
    """Vectors of half precision as float32, others as they are: sums of products need it."""
    return vectors.float() if vectors.dtype in (torch.float16, torch.bfloat16) else vectors


class Standardise(nn.Module):
    """(x - mean) / scale per feature, the identity until `fit` is called. dim: D features."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.mean: Tensor
        self.scale: Tensor
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))

    def fit(self, mean: Tensor, deviation: Tensor) -> None:
        """Take the statistics of the training features; constant features are centred, not scaled.

        Args:
            mean: (D,).
            deviation: (D,) standard deviations, 0 of constant features.
        """
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(deviation > 0, deviation, torch.ones_like(deviation)))

    def forward(self, features: Tensor) -> Tensor:
        """Features (B, D) to standardised features (B, D)."""
        return (features - self.mean) / self.scale
