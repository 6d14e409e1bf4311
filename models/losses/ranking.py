"""Ranking losses: a pair must beat its negatives by a margin, in both directions.

The three losses of Sun et al. 2019 differ only in how many negatives count: all, the hardest,
or the k hardest. They are one computation with that number as its argument.
"""

import torch
from torch import nn
from torch.nn import functional

from models.layers.linear import at_least_float32

LOSSES = ("sum_margin", "max_margin", "knn_margin")


class RankingLoss(nn.Module):
    """One of the ranking losses of Sun et al. 2019 on a matrix of scores.

    name: sum_margin (eq. 2), max_margin (eq. 3) or knn_margin (eq. 4); margin: alpha, on the scale
    of the scores; k: hardest negatives per query, read by knn_margin alone; reduction: sum over the
    queries of both directions, or mean: each direction's mean over its B queries, added.
    Raises ValueError on other names.
    """

    def __init__(self, name: str, margin: float, k: int = 3, reduction: str = "sum") -> None:
        super().__init__()
        check_reduction(reduction)
        self.margin, self.reduction = margin, reduction
        self.hardest = hardest_negatives(name, k)

    def forward(self, scores: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
        """The loss of one batch, a scalar.

        scores: (B, B), images in rows, the scores of the true pairs on the diagonal; groups: (B,)
        integers. Pairs of one group are never each other's negatives: another caption of the same
        image describes that image too. A query without negatives adds nothing.
        """
        positives = groups[:, None] == groups[None, :]
        total = ranking_loss(scores, positives, self.margin, self.hardest)
        return total / len(scores) if self.reduction == "mean" else total


def hardest_negatives(name: str, k: int) -> int | None:
    """How many negatives of a query the loss `name` counts: None for all, 1, or k.

    Raises ValueError on a name that is not in LOSSES.
    """
    if name not in LOSSES:
        raise ValueError(f"loss {name!r}: allowed are {', '.join(LOSSES)}")
    return {"sum_margin": None, "max_margin": 1, "knn_margin": k}[name]


def check_reduction(reduction: str) -> None:
    """Raise ValueError unless the reduction is sum or mean."""
    if reduction not in ("sum", "mean"):
        raise ValueError(f"reduction {reduction!r}: allowed are sum, mean")


def ranking_loss(
    scores: torch.Tensor, positives: torch.Tensor, margin: float, hardest: int | None
) -> torch.Tensor:
    """Sum over both directions of the hinges [margin - s(pair) + s(negative)]+.

    scores: (B, B); positives: (B, B) bool, True where row and column belong together, the diagonal
    included; hardest: number of negatives that count per query, None for all. At least float32.
    """
    scores = at_least_float32(scores)
    true = scores.diagonal()
    # a hinge grows with its score, so the hardest negatives are those of the largest hinges
    by_image = functional.relu(margin - true[:, None] + scores).masked_fill(positives, 0.0)
    by_caption = functional.relu(margin - true[None, :] + scores).masked_fill(positives, 0.0)
    return _sum_hardest(by_image, hardest) + _sum_hardest(by_caption.T, hardest)


def _sum_hardest(hinges: torch.Tensor, hardest: int | None) -> torch.Tensor:
    """Sum of the `hardest` largest hinges of each row (B, B); masked entries are zero."""
    if hardest is None or hardest >= hinges.shape[1] - 1:
        return hinges.sum()
    return hinges.topk(hardest, dim=1).values.sum()
