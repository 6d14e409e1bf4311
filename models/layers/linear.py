"""Small pieces that several models share."""

import torch
from torch import nn
from torch.nn import functional


def glorot_linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with Glorot's uniform weights and zero biases."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def unit_rows(vectors: torch.Tensor) -> torch.Tensor:
    """Rows (B, K) divided by their L2 norms, at least float32; a row of zeros stays zero."""
    return functional.normalize(at_least_float32(vectors), dim=1)


def at_least_float32(vectors: torch.Tensor) -> torch.Tensor:
    """The same values, float32 if they were of half precision."""
    return vectors.float() if vectors.dtype in (torch.float16, torch.bfloat16) else vectors
