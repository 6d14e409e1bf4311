"""The optimisers of the papers, by name."""

from collections.abc import Iterable

import torch


def optimiser(
    name: str,
    weights: Iterable[torch.nn.Parameter],
    lr: float,
    momentum: float,
    weight_decay: float,
) -> torch.optim.Optimizer:
    """`sgd` with momentum, or `adam`, which does not read it; ValueError for another name.

    weight_decay: added to the gradient as weight_decay * weight by both.
    """
    if name == "sgd":
        return torch.optim.SGD(weights, lr, momentum, weight_decay=weight_decay)
    if name == "adam":
        return torch.optim.Adam(weights, lr, weight_decay=weight_decay)
    raise ValueError(f"optimiser {name!r}: allowed are sgd, adam")
