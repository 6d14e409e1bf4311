"""The loss of the two-branch network: ranking across the views, neighbourhoods within each.

A batch may hold several captions per image and several images per caption, so the loss takes
embeddings with their groups and not one square matrix of pairs.
"""

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from models.layers.linear import at_least_float32
from models.losses.ranking import check_reduction, hardest_negatives

BLOCK = 1 << 22  # hinges held at once: 16 MB in float32


class StructureLoss(nn.Module):
    """Eq. 5 of Wang et al. 2016: hinges [margin + d(anchor, positive) - d(anchor, negative)]+.

    name: of models.losses.ranking.LOSSES: which negatives of an anchor the cross-view terms count:
    all, the hardest, or the k hardest (the paper's top K violations, K = 50); margin: m, in units
    of Euclidean distance between unit vectors; k: read by knn_margin alone; structure_k: hardest
    negatives that the within-view terms count, under every name; image_to_sentence,
    sentence_to_image, image_image, sentence_sentence: weights of the four terms (1, lambda 1, 2
    and 3 in the paper); a term of weight 0 is not computed. reduction: sum over all triplets
    taken, as in eq. 5, or mean: each term divided by its number of positive pairs.
    Raises ValueError on other names, and when all weights are 0.
    """

    def __init__(
        self,
        name: str,
        margin: float,
        k: int = 50,
        structure_k: int = 50,
        image_to_sentence: float = 1.0,
        sentence_to_image: float = 2.0,
        image_image: float = 0.0,
        sentence_sentence: float = 0.2,
        reduction: str = "sum",
    ) -> None:
        super().__init__()
        check_reduction(reduction)
        if not any((image_to_sentence, sentence_to_image, image_image, sentence_sentence)):
            raise ValueError("all weights are 0: at least one term must have another weight")
        self.margin, self.reduction = margin, reduction
        self.hardest, self.structure_k = hardest_negatives(name, k), structure_k
        self.image_to_sentence, self.sentence_to_image = image_to_sentence, sentence_to_image
        self.image_image, self.sentence_sentence = image_image, sentence_sentence

    def forward(
        self,
        images: torch.Tensor,
        captions: torch.Tensor,
        image_groups: torch.Tensor,
        caption_groups: torch.Tensor,
    ) -> torch.Tensor:
        """The loss of one batch, a scalar, at least float32.

        images: (I, K), captions: (C, K) unit rows; image_groups: (I,), caption_groups: (C,)
        integers, equal where image and caption, two images or two captions belong together. A
        term without positive pairs, or without negatives, adds 0.
        """
        # bf16 keeps 3 digits of an inner product: too few beside a margin of 0.1
        with torch.autocast(images.device.type, enabled=False):
            rows = at_least_float32(images), at_least_float32(captions)
            groups = image_groups, caption_groups
            return self.cross_view(*rows, *groups) + self.within_views(*rows, *groups)

    def cross_view(
        self,
        images: torch.Tensor,
        captions: torch.Tensor,
        image_groups: torch.Tensor,
        caption_groups: torch.Tensor,
    ) -> torch.Tensor:
        """The first two terms of eq. 5, weighted: arguments and result as for `forward`."""
        total = images.new_zeros(())
        if not (self.image_to_sentence or self.sentence_to_image):
            return total
        cosines = images @ captions.T
        same = image_groups[:, None] == caption_groups[None, :]
        if self.image_to_sentence:
            by_image = self.term(cosines, same, same, self.hardest)
            total = total + self.image_to_sentence * by_image
        if self.sentence_to_image:
            by_caption = self.term(cosines.T, same.T, same.T, self.hardest)
            total = total + self.sentence_to_image * by_caption
        return total

    def within_views(
        self,
        images: torch.Tensor,
        captions: torch.Tensor,
        image_groups: torch.Tensor,
        caption_groups: torch.Tensor,
    ) -> torch.Tensor:
        """The last two terms of eq. 5, weighted: arguments and result as for `forward`."""
        total = images.new_zeros(())
        for weight, rows, groups in (
            (self.image_image, images, image_groups),
            (self.sentence_sentence, captions, caption_groups),
        ):
            if weight:
                same = groups[:, None] == groups[None, :]
                pairs = same.clone().fill_diagonal_(False)  # an anchor is not its own neighbour
                term = self.term(rows @ rows.T, pairs, same, self.structure_k)
                total = total + weight * term
        return total

    def term(
        self,
        cosines: torch.Tensor,
        pairs: torch.Tensor,
        same: torch.Tensor,
        hardest: int | None,
    ) -> torch.Tensor:
        """One unweighted term of eq. 5, reduced.

        cosines: (A, N), anchors in rows; pairs: (A, N) bool, the positive pairs; same: (A, N)
        bool, True where a column is no negative of its row; hardest: negatives that count per
        pair, None for all.
        """
        anchors, positives = pairs.nonzero(as_tuple=True)
        limits = self.margin + distances(cosines[anchors, positives])
        negatives = distances(nearest_negatives(cosines, same, hardest))
        total = HingeSum.apply(limits, negatives, anchors)
        return total / max(len(anchors), 1) if self.reduction == "mean" else total


def nearest_negatives(
    cosines: torch.Tensor, same: torch.Tensor, hardest: int | None
) -> torch.Tensor:
    """Cosines (A, k) of the nearest negatives of A anchors, -inf where there are fewer.

    cosines, same: (A, N) as for `StructureLoss.term`; hardest: k, None for all (then k = N). A
    hinge grows as its negative comes nearer, so these are the hardest ones whichever the positive,
    and one search per anchor serves all its pairs.
    """
    negatives = cosines.masked_fill(same, -torch.inf)
    if hardest is None or hardest >= cosines.shape[1] - 1:
        return negatives
    return negatives.topk(hardest, dim=1).values


class HingeSum(torch.autograd.Function):
    """Sum of [limit - d(negative)]+ over P pairs and the negatives of their anchors, a scalar.

    limits: (P,) margin + d(positive); negatives: (A, k) distances; anchors: (P,) row in
    `negatives` of each pair. The gradients are counts of the hinges above 0, so they are counted
    on the way and the (P, k) hinges exist a block at a time only: with many captions per group
    they would fill any memory.
    """

    @staticmethod
    def forward(
        ctx: Any, limits: torch.Tensor, negatives: torch.Tensor, anchors: torch.Tensor
    ) -> torch.Tensor:
        total, by_negative = limits.new_zeros(()), torch.zeros_like(negatives)
        by_limit = torch.zeros_like(limits)
        size = max(BLOCK // max(negatives.shape[1], 1), 1)
        for start in range(0, len(limits), size):
            block = slice(start, start + size)
            hinges = limits[block, None] - negatives[anchors[block]]
            violated = (hinges > 0).to(limits.dtype)
            total += hinges.clamp_min_(0).sum()
            by_limit[block] = violated.sum(1)
            by_negative.index_add_(0, anchors[block], violated, alpha=-1)
        ctx.save_for_backward(by_limit, by_negative)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        by_limit, by_negative = ctx.saved_tensors
        return gradient * by_limit, gradient * by_negative, None


def distances(cosines: torch.Tensor) -> torch.Tensor:
    """Euclidean distances sqrt(2 - 2 s) of unit vectors from their inner products s, any shape.

    The gradient of a square root at 0 is infinite, and captions of the same words, or a collapsed
    network, do lie at distance 0; rounding even makes 2 - 2 s negative. Below one rounding error
    of s nothing is known of the distance: there it is held constant, at 3e-4 in float32, and
    passes no gradient.
    """
    return (2 - 2 * cosines).clamp_min(torch.finfo(cosines.dtype).eps).sqrt()
