"""Hinges of pairs against the hardest of their negatives: what the three margin losses share."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.layers.linear import at_least_float32
from models.ranking.loss import RankingLoss, Rows

BLOCK = 1 << 22  # hinges held at once: 16 MB in float32


class MarginLoss(RankingLoss):
    """Sum over the positive pairs of [margin - s(pair) + s(negative)]+ for their negatives.

    Args:
        margin: alpha, on the scale of the scores.
        hardest: negatives that count per anchor, those with the largest scores; None for all.

    Raises:
        ValueError: `hardest` below 1.
    """

    def __init__(self, margin: float, hardest: int | None) -> None:
        super().__init__()
        if hardest is not None and hardest < 1:
            raise ValueError(f"k = {hardest}: must be a whole number from 1")
        self.margin = margin
        self.hardest = hardest

    def forward(self, scores: Tensor, pairs: Tensor, negatives: Tensor) -> Tensor:
        """The sum of the hinges, a scalar of at least float32.

        Args:
            scores: (A, N), anchors in rows.
            pairs: (A, N) bool, the positive pairs.
            negatives: (A, N) bool, what an anchor's positives are ranked against.
        """
        scores = at_least_float32(scores)
        anchors, positives = pairs.nonzero(as_tuple=True)
        # A hinge grows with its negative's score, so the hardest ones are the same for every
        # positive of an anchor, and one search per anchor serves all its pairs.
        against = scores.masked_fill(~negatives, -torch.inf)
        if self.hardest is not None and self.hardest < scores.shape[1] - 1:
            against = against.topk(self.hardest, dim=1).values
        limits = self.margin - scores[anchors, positives]
        total: Tensor = _HingeSum.apply(limits, against, anchors)
        return total


class _HingeSum(torch.autograd.Function):
    """Sum of [limit + negative]+ over P pairs and the negatives of their anchors, a scalar.

    limits: (P,), margin - s(pair); negatives: (A, k) scores, -inf where there is none; anchors:
    (P,), the row in `negatives` of each pair. Gradients are counts of the hinges above 0: they are
    counted in the forward pass, a block of the (P, k) hinges at a time.
    """

    @staticmethod
    def forward(ctx: Any, limits: Tensor, negatives: Tensor, anchors: Tensor) -> Tensor:
        total = limits.new_zeros(())
        by_negative = torch.zeros_like(negatives)
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
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        by_limit, by_negative = ctx.saved_tensors
        return gradient * by_limit, gradient * by_negative, None


def slow_hinge_loss(
    scores: Rows, pairs: Rows, negatives: Rows, margin: float, hardest: int | None
) -> float:
    """The same sum from loops over pairs, in Python floats: what the tests compare with.

    Args:
        scores: A rows of N numbers.
        pairs: A rows of N bools, the positive pairs.
        negatives: A rows of N bools.
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
