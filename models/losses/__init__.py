"""The ranking losses, a file each, and here what they share.

A loss is a `RankingLoss`: one direction of a batch in, a scalar out. `PairLoss` applies it to a
batch in both directions. Three of the losses are hinges against the hardest negatives of each pair,
a `MarginLoss` with a number of them. A file's name is what `loss` of params.yaml says
(models.ranking finds it); beside its class it holds `reference`, the same from loops over pairs in
Python floats, for the tests.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from models.layers.linear import at_least_float32

Rows = Sequence[Sequence[float]]  # of a `reference`: A rows of N scores, or of N bools
BLOCK = 1 << 22  # hinges held at once: 16 MB in float32


class RankingLoss(nn.Module, ABC):
    """A ranking loss; its constructor's arguments are its settings.

    Every argument but `margin` is a setting of the section `ranking` of params.yaml and has a type
    and a default: `k: Count = 3` (models.ranking).

    warms_up: whether training by it from the beginning may collapse, so that models train by
    sum_margin first; check_params reads it in the class itself, without its bases.
    """

    warms_up: ClassVar[bool] = False

    @abstractmethod
    def forward(self, scores: Tensor, pairs: Tensor, negatives: Tensor) -> Tensor:
        """The sum over the positive pairs, a scalar of at least float32.

        An entry that is neither pair nor negative is left out: another caption of the same image, a
        pair that was not computed. An anchor without negatives adds 0.

        Args:
            scores: (A, N), anchors (images, or captions) in rows; larger means nearer.
            pairs: (A, N) bool, the positive pairs, which must score high.
            negatives: (A, N) bool, what an anchor's positives are ranked against.

        Returns:
            A scalar of at least float32.
        """


class PairLoss(nn.Module):
    """A ranking loss on the (B, B) scores of a batch of pairs, row b of both sides a pair, in both
    directions.

    Args:
        ranking: one of models.losses.
        reduction: sum over the queries of both directions, as the papers' code does, or mean: each
            direction's mean over its B queries, added.

    Raises:
        ValueError: another reduction.
    """

    def __init__(self, ranking: RankingLoss, reduction: str = "sum") -> None:
        super().__init__()
        if reduction not in ("sum", "mean"):
            raise ValueError(f"reduction {reduction!r}: allowed are sum and mean")
        self.ranking = ranking
        self.reduction = reduction

    def forward(
        self,
        scores: Tensor,
        groups: Tensor,
        computed: Tensor | None = None,
        related: Tensor | None = None,
    ) -> Tensor:
        """The loss of one batch, a scalar.

        Args:
            scores: (B, B), images in rows, the true pairs on the diagonal.
            groups: (B,) integers. Pairs of one group are never each other's negatives: another
                caption of the same image describes that image too.
            computed: (B, B) bool, the pairs that have a score, the diagonal included; None for all.
                A caption's negatives are then the images selected for it, an image's the captions
                that selected it (early selection, Chen and Luo 2020).
            related: (B, B) bool, more that are no negatives; None for none.

        Returns:
            A scalar of at least float32.
        """
        scores = at_least_float32(scores)
        pairs = torch.eye(len(groups), dtype=torch.bool, device=scores.device)
        negatives = groups[:, None] != groups[None, :]
        if related is not None:
            negatives = negatives & ~related
        if computed is not None:
            negatives = negatives & computed
        by_image = self.ranking(scores, pairs, negatives)
        total = by_image + self.ranking(scores.T, pairs, negatives.T)
        return total / len(groups) if self.reduction == "mean" else total


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

        Returns:
            A scalar of at least float32.
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
    """The sum of all hinges from loops over pairs, in Python floats, for the tests.

    Args:
        scores: A rows of N numbers.
        pairs: A rows of N bools, the positive pairs.
        negatives: A rows of N bools.
        margin: alpha.
        hardest: negatives that count per anchor, None for all.

    Returns:
        The sum.
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
