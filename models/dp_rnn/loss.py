"""The loss of DP-RNN: a ranking loss on the pairs that each network computed."""

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from models.losses import PairLoss, RankingLoss


class NetworksLoss(nn.Module):
    """A ranking loss of the word and one of the object network (Chen and Luo 2020), by the name of
    the network. Losses that add up over negatives grow with their number d; max_margin (eq. 13)
    does not. reduction: as in models.losses.PairLoss."""

    def __init__(self, rankings: Mapping[str, RankingLoss], reduction: str = "sum") -> None:
        super().__init__()
        losses = {name: PairLoss(ranking, reduction) for name, ranking in rankings.items()}
        self.pairs = nn.ModuleDict(losses)

    def forward(
        self,
        networks: Sequence[tuple[Tensor, Tensor]],
        groups: Tensor,
        related: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """The losses of one batch, a scalar by the name of each network. networks: of each its
        scores (B, B), images in rows, and (B, B) bool which of them it computed; groups: (B,),
        related: (B, B) as in PairLoss."""
        paired = zip(self.pairs.items(), networks, strict=True)
        return {
            name: loss(scores, groups, known, related) for (name, loss), (scores, known) in paired
        }
