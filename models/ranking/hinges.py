"""Hinges of pairs against the hardest of their negatives: what the three margin losses share."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from models.layers.linear import at_least_float32

BLOCK = 1 << 22  # hinges held at once: 16 MB in float32


def hinge_loss(
    scores: torch.Tensor,
    pairs: torch.Tensor,
    negatives: torch.Tensor,
    margin: float,
    hardest: int | None,
) -> torch.Tensor:
    """Sum over the positive pairs of [margin - s(pair) + s(negative)]+ for their negatives.

    Args:
        scores: (A, N), anchors in rows.
        pairs: (A, N) bool, the positive pairs.
        negatives: (A, N) bool.
        margin: alpha, on the scale of the scores.
        hardest: negatives that count per anchor, those of the largest scores; None for all.

    Returns:
        A scalar, at least float32; an anchor without negatives adds 0.
    """
    scores = at_least_float32(scores)
    anchors, positives = pairs.nonzero(as_tuple=True)
    # A hinge grows with its negative's score, so the hardest ones are the same for every positive
    # of an anchor, and one search per anchor serves all its pairs.
    against = scores.masked_fill(~negatives, -torch.inf)
    if hardest is not None and hardest < scores.shape[1] - 1:
        against = against.topk(hardest, dim=1).values
    total: torch.Tensor = _HingeSum.apply(margin - scores[anchors, positives], against, anchors)
    return total


class _HingeSum(torch.autograd.Function):
    """Sum of [limit + negative]+ over P pairs and the negatives of their anchors, a scalar.

    The inputs are limits (P,), margin - s(pair); negatives (A, k) scores, -inf where there is none;
    and anchors (P,), the row in `negatives` of each pair. The gradients are counts of the hinges
    above 0, so they are counted on the way and the (P, k) hinges exist a block at a time only: with
    many captions per group they would fill any memory.
    """

    @staticmethod
    def forward(
        ctx: Any, limits: torch.Tensor, negatives: torch.Tensor, anchors: torch.Tensor
    ) -> torch.Tensor:
        total, by_negative = limits.new_zeros(()), torch.zeros_like(negatives)
        by_limit = torch.zeros_like(limits)
        size = max(BLOCK // max(negatives.shape[1], 1), 1)
        for start in range(0, len(limits), size):
            block = slice(start, start + size)
            hinges = limits[block, None] + negatives[anchors[block]]
            violated = (hinges > 0).to(limits.dtype)
            total += hinges.clamp_min_(0).sum()
            by_limit[block] = violated.sum(1)
            by_negative.index_add_(0, anchors[block], violated)
        ctx.save_for_backward(by_limit, by_negative)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        by_limit, by_negative = ctx.saved_tensors
        return gradient * by_limit, gradient * by_negative, None


def slow_hinge_loss(
    scores: Sequence[Sequence[float]],
    pairs: Sequence[Sequence[bool]],
    negatives: Sequence[Sequence[bool]],
    margin: float,
    hardest: int | None,
) -> float:
    """The same as loops over pairs, in Python floats: what the tests compare with.

    Args:
        scores: A rows of N numbers.
        pairs: A rows of N truth values.
        negatives: A rows of N truth values.
        margin: alpha.
        hardest: negatives that count per anchor, None for all.
    """
    total = 0.0
    for anchor, row in enumerate(scores):
        for positive, is_pair in enumerate(pairs[anchor]):
            if not is_pair:
                continue
            others = [value for value, asked in zip(row, negatives[anchor], strict=True) if asked]
            hinges = sorted((max(0.0, margin - row[positive] + s) for s in others), reverse=True)
            total += sum(hinges[:hardest])
    return total
