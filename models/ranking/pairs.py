"""A ranking loss on a batch of B pairs, row b of both sides a pair, in both directions."""

import torch
from torch import nn

from models.layers.linear import at_least_float32
from models.ranking.loss import RankingLoss

REDUCTIONS = ("sum", "mean")


class PairLoss(nn.Module):
    """A ranking loss of models.losses on the (B, B) scores of a batch of pairs.

    ranking: the loss of one direction; reduction: sum over the queries of both directions, as the
    papers' code does, or mean: each direction's mean over its B queries, added.
    Raises ValueError for another reduction.
    """

    def __init__(self, ranking: RankingLoss, reduction: str = "sum") -> None:
        super().__init__()
        check_reduction(reduction)
        self.ranking, self.reduction = ranking, reduction

    def forward(
        self,
        scores: torch.Tensor,
        groups: torch.Tensor,
        computed: torch.Tensor | None = None,
        related: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The loss of one batch, a scalar.

        Pairs of one group are never each other's negatives: another caption of the same image
        describes that image too. A query without negatives adds nothing.

        Args:
            scores: (B, B), images in rows, the scores of the true pairs on the diagonal.
            groups: (B,) integers.
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


def check_reduction(reduction: str) -> None:
    """Raise ValueError unless the reduction is sum or mean."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction {reduction!r}: allowed are {', '.join(REDUCTIONS)}")
