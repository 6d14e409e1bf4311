"""How the rows of a batch are shared: here not at all (pipeline.training.processes.divided)."""

from collections.abc import Callable
from typing import Any

import torch

Divide = Callable[..., Any]  # as `undivided`


def undivided(function: Callable[..., Any], *rows: torch.Tensor) -> Any:
    """What a function makes of rows (B, ...): tensors of B rows, or lists and tuples of such."""
    return function(*rows)
