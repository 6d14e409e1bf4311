"""How the rows of a batch are worked on, as a network is told: here at once.

pipeline.training.processes.divided shares them between processes; networks know nothing of it.
"""

from collections.abc import Callable
from typing import Any

import torch

Divide = Callable[..., Any]  # as `undivided`


def undivided(function: Callable[..., Any], *rows: torch.Tensor) -> Any:
    """What a function makes of rows.

    Args:
        function: from tensors whose first dimension are B rows to tensors of B rows, or lists and
            tuples of such.
        *rows: its arguments (B, ...).
    """
    return function(*rows)
