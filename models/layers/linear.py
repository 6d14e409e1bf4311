"""Small pieces that several models share."""

import torch
from torch import Tensor, nn
from torch.nn import functional


def glorot_linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with Glorot's uniform weights and zero biases."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def unit_rows(vectors: Tensor) -> Tensor:
    """Rows (B, K) divided by their L2 norms, at least float32; a row of zeros stays zero."""
    return functional.normalize(at_least_float32(vectors), dim=1)


def inside(lengths: Tensor, width: int, device: torch.device) -> Tensor:
    """Bool (..., width): which places are not padding, of lengths (...)."""
    return torch.arange(width, device=device) < lengths.to(device)[..., None]


def at_least_float32(vectors: Tensor) -> Tensor:
    """The same values, float32 if they were of half precision."""
    return vectors.float() if vectors.dtype in (torch.float16, torch.bfloat16) else vectors
