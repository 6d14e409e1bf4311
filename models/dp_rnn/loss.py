"""Ranking losses where only some pairs of a batch have a score (DP-RNN's pair early-selection)."""

import torch
from torch import nn

from models.losses.ranking import check_reduction, hardest_negatives, ranking_loss


class ComputedPairsLoss(nn.Module):
    """A ranking loss over the pairs that were computed (Chen and Luo 2020, pair early-selection).

    name, margin, k, reduction: as in models.losses.ranking.RankingLoss, which it equals when every
    pair was computed. A caption's negatives are the images selected for it; an image's negatives
    are the captions that selected it, possibly none.
    Raises ValueError on other names.
    """

    def __init__(self, name: str, margin: float, k: int = 3, reduction: str = "sum") -> None:
        super().__init__()
        check_reduction(reduction)
        self.margin, self.reduction = margin, reduction
        self.hardest = hardest_negatives(name, k)

    def forward(
        self, scores: torch.Tensor, computed: torch.Tensor, groups: torch.Tensor
    ) -> torch.Tensor:
        """The loss of one batch, a scalar.

        scores: (B, B), images in rows, true pairs on the diagonal; computed: (B, B) bool, the
        diagonal included; groups: (B,), pairs of one group are never each other's negatives.
        """
        no_negatives = (groups[:, None] == groups[None, :]) | ~computed
        total = ranking_loss(scores, no_negatives, self.margin, self.hardest)
        return total / len(scores) if self.reduction == "mean" else total
