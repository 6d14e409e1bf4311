"""A ranking loss on a batch of B pairs, row b of both sides a pair, in both directions."""

import torch
from torch import Tensor, nn

from models.layers.linear import at_least_float32
from models.ranking.loss import RankingLoss


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
