"""The k hardest negatives count (Sun et al. 2019, eq. 4)."""

from collections.abc import Sequence

import torch

from models.ranking.hinges import hinge_loss, slow_hinge_loss
from models.ranking.loss import RankingLoss
from pipeline.runtime.section import Count


class KNNMargin(RankingLoss):
    """Hinges against the k hardest negatives (Sun et al. 2019, eq. 4).

    margin: alpha, on the scale of the scores; k: hardest negatives per anchor.
    """

    warms_up = True

    def __init__(self, margin: float, k: Count = 3) -> None:
        super().__init__()
        self.margin, self.k = margin, k

    def forward(
        self, scores: torch.Tensor, pairs: torch.Tensor, negatives: torch.Tensor
    ) -> torch.Tensor:
        """Hinges against the k hardest negatives of each anchor, summed over the positive pairs.

        Args:
            scores: (A, N), anchors in rows.
            pairs: (A, N) bool, the positive pairs.
            negatives: (A, N) bool.

        Returns:
            A scalar, at least float32.
        """
        return hinge_loss(scores, pairs, negatives, self.margin, hardest=self.k)


def reference(
    scores: Sequence[Sequence[float]],
    pairs: Sequence[Sequence[bool]],
    negatives: Sequence[Sequence[bool]],
    margin: float,
    k: int,
) -> float:
    """The same from loops over pairs.

    Args:
        scores: A rows of N numbers.
        pairs: A rows of N truth values.
        negatives: A rows of N truth values.
        margin: alpha.
        k: hardest negatives per anchor.
    """
    return slow_hinge_loss(scores, pairs, negatives, margin, k)
