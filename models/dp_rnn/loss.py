"""The loss of DP-RNN: a ranking loss on the pairs that each network computed, added."""

from collections.abc import Sequence

import torch
from torch import nn

from models.losses.pairs import PairLoss
from models.losses.ranking import RankingLoss


class NetworksLoss(nn.Module):
    """The sum of a ranking loss over the word and the object network (Chen and Luo 2020).

    ranking: of models.losses; reduction: as in models.losses.pairs.PairLoss.
    """

    def __init__(self, ranking: RankingLoss, reduction: str = "sum") -> None:
        super().__init__()
        self.pairs = PairLoss(ranking, reduction)

    def forward(
        self, networks: Sequence[tuple[torch.Tensor, torch.Tensor]], groups: torch.Tensor
    ) -> torch.Tensor:
        """The loss of one batch, a scalar.

        networks: of each its scores (B, B), images in rows, and (B, B) bool which of them it
        computed; groups: (B,), pairs of one group are never each other's negatives.
        """
        losses = [self.pairs(scores, groups, computed) for scores, computed in networks]
        return torch.stack(losses).sum()
