"""The hardest negative counts (Sun et al. 2019, eq. 3; VSE++)."""

from collections.abc import Sequence

import torch

from models.ranking.hinges import hinge_loss, slow_hinge_loss
from models.ranking.loss import RankingLoss


class MaxMargin(RankingLoss):
    """Hinges against the hardest negative (Sun et al. 2019, eq. 3).

    margin: alpha, on the scale of the scores.
    """

    warms_up = True

    def __init__(self, margin: float) -> None:
        super().__init__()
        self.margin = margin

    def forward(
        self, scores: torch.Tensor, pairs: torch.Tensor, negatives: torch.Tensor
    ) -> torch.Tensor:
        """Hinges against the hardest negative of each anchor, summed over the positive pairs.

        Args:
            scores: (A, N), anchors in rows.
            pairs: (A, N) bool, the positive pairs.
            negatives: (A, N) bool.

        Returns:
            A scalar, at least float32.
        """
        return hinge_loss(scores, pairs, negatives, self.margin, hardest=1)


def reference(
    scores: Sequence[Sequence[float]],
    pairs: Sequence[Sequence[bool]],
    negatives: Sequence[Sequence[bool]],
    margin: float,
) -> float:
    """The same from loops over pairs.

    Args:
        scores: A rows of N numbers.
        pairs: A rows of N truth values.
        negatives: A rows of N truth values.
        margin: alpha.
    """
    return slow_hinge_loss(scores, pairs, negatives, margin, 1)
