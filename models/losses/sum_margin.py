"""All negatives count (Sun et al. 2019, eq. 2)."""

from models.losses import MarginLoss, Rows, slow_hinge_loss


class SumMargin(MarginLoss):
    """Hinges against all negatives (Sun et al. 2019, eq. 2)."""

    def __init__(self, margin: float) -> None:
        super().__init__(margin, hardest=None)


def reference(scores: Rows, pairs: Rows, negatives: Rows, margin: float) -> float:
    """The loss from loops over pairs, in Python floats.

    Args:
        scores: A rows of N numbers.
        pairs: A rows of N bools, the positive pairs.
        negatives: A rows of N bools.
        margin: alpha.

    Returns:
        The sum of the hinges of all negatives of each positive pair.
    """
    return slow_hinge_loss(scores, pairs, negatives=negatives, margin=margin, hardest=None)
