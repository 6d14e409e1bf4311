"""What every ranking loss is: one direction of a batch in, a scalar out."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

Rows = Sequence[Sequence[float]]  # of a `reference`: A rows of N scores, or of N bools


class RankingLoss(nn.Module, ABC):
    """A ranking loss; its constructor's arguments are its settings.

    Every argument but `margin` is a setting of the section `ranking` of params.yaml and has a type
    and a default: `k: Count = 3` (models.ranking.params).

    warms_up: whether training by it from the beginning may collapse, so that models train by
    sum_margin first; check_params reads it in the class itself, without its bases.
    """

    warms_up: ClassVar[bool] = False

    @abstractmethod
    def forward(self, scores: Tensor, pairs: Tensor, negatives: Tensor) -> Tensor:
        """The sum over the positive pairs, a scalar of at least float32.

        An entry that is neither pair nor negative is left out: another caption of the same image, a
        pair that was not computed. An anchor without negatives adds 0.

        Args:
            scores: (A, N), anchors (images, or captions) in rows; larger means nearer.
            pairs: (A, N) bool, the positive pairs, which must score high.
            negatives: (A, N) bool, what an anchor's positives are ranked against.
        """
