"""The hardest negative counts (Sun et al. 2019, eq. 3; VSE++)."""

from models.losses import MarginLoss, Rows, slow_hinge_loss


class MaxMargin(MarginLoss):
    """Hinges against the hardest negative (Sun et al. 2019, eq. 3)."""

    warms_up = True

    def __init__(self, margin: float) -> None:
        super().__init__(margin, hardest=1)


def reference(scores: Rows, pairs: Rows, negatives: Rows, margin: float) -> float:
    """The loss from loops over pairs, in Python floats.

    Args:
        scores: A rows of N numbers.
        pairs: A rows of N bools, the positive pairs.
        negatives: A rows of N bools.
        margin: alpha.

    Returns:
        The sum of the hinges of the hardest negative of each positive pair.
    """
    return slow_hinge_loss(scores, pairs, negatives=negatives, margin=margin, hardest=1)
