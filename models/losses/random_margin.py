"""One negative counts, drawn at random (Zheng et al. 2020, eq. 4)."""

import torch
from torch import Tensor

from models.layers.linear import at_least_float32
from models.losses import RankingLoss, Rows


class RandomMargin(RankingLoss):
    """[margin - s(pair) + s(negative)]+ for one random negative of each positive pair, drawn anew
    at every call in training. The number of calls seeds the draw and is saved with the weights: a
    resumed training, and one of several processes, draws the same.

    Args:
        margin: alpha, on the scale of the scores.
    """

    def __init__(self, margin: float) -> None:
        super().__init__()
        self.margin = margin
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, scores: Tensor, pairs: Tensor, negatives: Tensor) -> Tensor:
        """The sum of the hinges, a scalar of at least float32.

        Args:
            scores: (A, N), anchors in rows.
            pairs: (A, N) bool, the positive pairs.
            negatives: (A, N) bool, of which one is drawn for each pair.

        Returns:
            The sum, 0 where no anchor has both a pair and a negative.
        """
        scores = at_least_float32(scores)
        counts = negatives.sum(1)
        anchors, positives = (pairs & (counts > 0)[:, None]).nonzero(as_tuple=True)
        shares = uniform_numbers(len(anchors), int(self.calls)).to(scores.device)
        self.calls += self.training
        _, columns = negatives.nonzero(as_tuple=True)  # row by row
        chosen = (counts.cumsum(0) - counts)[anchors] + (shares * counts[anchors]).long()
        against = scores[anchors, columns[chosen]]
        return (self.margin - scores[anchors, positives] + against).clamp_min(0).sum()


def uniform_numbers(count: int, seed: int) -> Tensor:
    """Uniform numbers from 0 to below 1, float64, on the CPU.

    Args:
        count: how many.
        seed: decides them.

    Returns:
        (count,) float64.
    """
    return torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def reference(scores: Rows, pairs: Rows, negatives: Rows, margin: float) -> float:
    """The loss of the first call from loops over pairs, in Python floats.

    Args:
        scores: A rows of N numbers.
        pairs: A rows of N bools, the positive pairs.
        negatives: A rows of N bools.
        margin: alpha.

    Returns:
        The sum of a hinge per positive pair whose anchor has negatives.
    """
    positives: list[tuple[float, list[float]]] = []  # score of each, and those of its negatives
    for row, is_pair, is_negative in zip(scores, pairs, negatives, strict=True):
        against = [score for score, asked in zip(row, is_negative, strict=True) if asked]
        if against:
            paired = [score for score, asked in zip(row, is_pair, strict=True) if asked]
            positives += [(score, against) for score in paired]
    total = 0.0
    shares = uniform_numbers(len(positives), seed=0).tolist()
    for (positive, against), share in zip(positives, shares, strict=True):
        total += max(0.0, margin - positive + against[int(share * len(against))])
    return total
