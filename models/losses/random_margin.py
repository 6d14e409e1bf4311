"""One negative counts, drawn at random (Zheng et al. 2020, eq. 4)."""

import torch
from torch import Tensor

from models.layers.linear import at_least_float32
from models.ranking.loss import RankingLoss, Rows


class RandomMargin(RankingLoss):
    """[margin - s(pair) + s(negative)]+ for one random negative of each positive pair, drawn anew
    at every call in training. The number of calls seeds the draw and is saved with the weights: a
    resumed training, and one of several processes, draws the same."""

    def __init__(self, margin: float) -> None:
        super().__init__()
        self.margin = margin
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, scores: Tensor, pairs: Tensor, negatives: Tensor) -> Tensor:
        """As RankingLoss, of scores (A, N)."""
        scores, counts = at_least_float32(scores), negatives.sum(1)
        anchors, positives = (pairs & (counts > 0)[:, None]).nonzero(as_tuple=True)
        shares = drawn(len(anchors), int(self.calls)).to(scores.device)
        self.calls += self.training
        _, columns = negatives.nonzero(as_tuple=True)  # row by row
        chosen = (counts.cumsum(0) - counts)[anchors] + (shares * counts[anchors]).long()
        against = scores[anchors, columns[chosen]]
        return (self.margin - scores[anchors, positives] + against).clamp_min(0).sum()


def drawn(count: int, seed: int) -> Tensor:
    """Uniform numbers from 0 to below 1, (count,) float64, on the CPU."""
    return torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def reference(scores: Rows, pairs: Rows, negatives: Rows, margin: float) -> float:
    """Of the first call."""
    hinges = [
        (margin - value, [score for score, is_asked in zip(row, others, strict=True) if is_asked])
        for row, true, others in zip(scores, pairs, negatives, strict=True)
        for value, is_pair in zip(row, true, strict=True)
        if is_pair and any(others)
    ]
    draws = zip(hinges, drawn(len(hinges), 0).tolist(), strict=True)
    return sum(max(0.0, limit + asked[int(share * len(asked))]) for (limit, asked), share in draws)
