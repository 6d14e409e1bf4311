"""The k hardest negatives count (Sun et al. 2019, eq. 4)."""

from models.losses import MarginLoss, Rows, slow_hinge_loss
from pipeline.runtime.section import Count


class KNNMargin(MarginLoss):
    """Hinges against the k hardest negatives of each anchor (Sun et al. 2019, eq. 4).

    Args:
        margin: alpha, on the scale of the scores.
        k: negatives that count; 3 in the paper.
    """

    warms_up = True

    def __init__(self, margin: float, k: Count = 3) -> None:
        super().__init__(margin, hardest=k)


def reference(scores: Rows, pairs: Rows, negatives: Rows, margin: float, k: int) -> float:
    """The loss from loops over pairs, in Python floats.

    Args:
        scores: A rows of N numbers.
        pairs: A rows of N bools, the positive pairs.
        negatives: A rows of N bools.
        margin: alpha.
        k: negatives that count.

    Returns:
        The sum of the hinges of the k hardest negatives of each positive pair.
    """
    return slow_hinge_loss(scores, pairs, negatives=negatives, margin=margin, hardest=k)
