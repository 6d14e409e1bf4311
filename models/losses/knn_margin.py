"""The k hardest negatives count (Sun et al. 2019, eq. 4)."""

from collections.abc import Sequence

from models.ranking.hinges import MarginLoss, slow_hinge_loss
from pipeline.runtime.section import Count


class KNNMargin(MarginLoss):
    """Hinges against the k hardest negatives of each anchor (Sun et al. 2019, eq. 4)."""

    warms_up = True

    def __init__(self, margin: float, k: Count = 3) -> None:
        super().__init__(margin, hardest=k)


def reference(
    scores: Sequence[Sequence[float]],
    pairs: Sequence[Sequence[bool]],
    negatives: Sequence[Sequence[bool]],
    margin: float,
    k: int,
) -> float:
    return slow_hinge_loss(scores, pairs, negatives, margin, k)
