"""Symmetric cross-entropy with a learnt temperature (CLIP: Radford et al. 2021, section 2.3)."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from models.layers.linear import at_least_float32
from models.losses import RankingLoss, Rows
from pipeline.runtime.section import Positive

LARGEST_SCALE = 100.0  # of the logits, as in CLIP: beyond it training becomes unstable


class InfoNCE(RankingLoss):
    """Cross-entropy of every positive among itself and the negatives of its anchor; both directions
    together are twice CLIP's loss. Another caption of the same image is left out of the sum below
    the fraction.

    Args:
        temperature: at the start (0.07 in CLIP); its inverse is learnt as exp(log_scale), at most
            100.
    """

    def __init__(self, temperature: Positive = 0.07) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(-math.log(temperature)))

    def forward(self, scores: Tensor, pairs: Tensor, negatives: Tensor) -> Tensor:
        """Cross-entropies at the temperature learnt so far, summed over the positive pairs.

        Args:
            scores: (A, N), anchors in rows.
            pairs: (A, N) bool, the positive pairs.
            negatives: (A, N) bool, what an anchor's positives are ranked against.

        Returns:
            A scalar of at least float32.
        """
        with torch.no_grad():  # after the optimiser's step, as in CLIP
            self.log_scale.clamp_(max=math.log(LARGEST_SCALE))
        logits = at_least_float32(scores) * self.log_scale.exp()
        anchors, positives = pairs.nonzero(as_tuple=True)
        # Finite, as a row without negatives would have gradients of -inf minus -inf.
        lowest = torch.finfo(logits.dtype).min
        against = logits.masked_fill(~negatives, lowest).logsumexp(1)
        return softplus(against[anchors] - logits[anchors, positives]).sum()


def reference(scores: Rows, pairs: Rows, negatives: Rows, temperature: float) -> float:
    """The loss from loops over pairs, in Python floats.

    Args:
        scores: A rows of N numbers.
        pairs: A rows of N bools, the positive pairs.
        negatives: A rows of N bools.
        temperature: what the scores are divided by.

    Returns:
        The sum over all positive pairs.
    """
    total = 0.0
    for row, is_pair, is_negative in zip(scores, pairs, negatives, strict=True):
        exponentials = [math.exp(score / temperature) for score in row]
        below = sum(e for e, asked in zip(exponentials, is_negative, strict=True) if asked)
        for positive, asked in zip(exponentials, is_pair, strict=True):
            if asked:
                total -= math.log(positive / (positive + below))
    return total
