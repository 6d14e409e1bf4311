"""The loss of the two-branch network: ranking across the views, neighbourhoods within each.

A batch may hold several captions per image and several images per caption, so the loss takes
embeddings with their groups and not one square matrix of pairs.
"""

import torch
from torch import nn

from models.layers.linear import at_least_float32
from models.losses.knn_margin import KNNMargin
from models.ranking.loss import RankingLoss
from models.ranking.pairs import check_reduction


class StructureLoss(nn.Module):
    """Eq. 5 of Wang et al. 2016: hinges [margin + d(anchor, positive) - d(anchor, negative)]+.

    A term of weight 0 is not computed.

    Args:
        ranking: the loss of the cross-view terms, a ranking loss of models.losses on scores -d, d
            the Euclidean distance between unit vectors (the paper's top K violations are knn_margin
            with k of 50).
        margin: m of the within-view terms, in units of d.
        structure_k: hardest negatives that these count.
        image_to_sentence: weight of its term (1 in the paper).
        sentence_to_image: weight of its term (lambda 1).
        image_image: weight of its term (lambda 2).
        sentence_sentence: weight of its term (lambda 3).
        reduction: sum over all triplets taken, as in eq. 5, or mean: each term divided by its
            number of positive pairs.

    Raises:
        ValueError: another reduction, or all weights 0.
    """

    def __init__(
        self,
        ranking: RankingLoss,
        margin: float,
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
        self.ranking, self.neighbours = ranking, KNNMargin(margin, structure_k)
        self.image_to_sentence, self.sentence_to_image = image_to_sentence, sentence_to_image
        self.image_image, self.sentence_sentence = image_image, sentence_sentence
        self.reduction = reduction

    def forward(
        self,
        images: torch.Tensor,
        captions: torch.Tensor,
        image_groups: torch.Tensor,
        caption_groups: torch.Tensor,
        related: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The loss of one batch; a term without positive pairs, or without negatives, adds 0.

        Args:
            images: (I, K) unit rows.
            captions: (C, K) unit rows.
            image_groups: (I,) integers, equal where two images, or image and caption, belong
                together.
            caption_groups: (C,) integers likewise.
            related: (I, C) bool, pairs that are neither positive nor negative, None for none.

        Returns:
            A scalar, at least float32.
        """
        same = image_groups[:, None] == caption_groups[None, :]
        alike = [groups[:, None] == groups[None, :] for groups in (image_groups, caption_groups)]
        left_out = same if related is None else same | related
        return self.of_masks(images, captions, same, left_out, *alike)

    def of_masks(
        self,
        images: torch.Tensor,
        captions: torch.Tensor,
        pairs: torch.Tensor,
        same: torch.Tensor,
        same_images: torch.Tensor,
        same_captions: torch.Tensor,
    ) -> torch.Tensor:
        """The loss of a batch whose items belong together in other ways than by groups.

        Args:
            images: (I, K) unit rows.
            captions: (C, K) unit rows.
            pairs: (I, C) bool, the positive pairs.
            same: (I, C) bool, True where neither is a negative of the other.
            same_images: (I, I) bool, True for neighbours and on the diagonal.
            same_captions: (C, C) bool likewise.

        Returns:
            A scalar, at least float32.
        """
        # bf16 keeps 3 digits of an inner product: too few beside a margin of 0.1
        with torch.autocast(images.device.type, enabled=False):
            rows = at_least_float32(images), at_least_float32(captions)
            within = self.within_views(*rows, same_images, same_captions)
            return self.cross_view(*rows, pairs, same) + within

    def cross_view(
        self,
        images: torch.Tensor,
        captions: torch.Tensor,
        pairs: torch.Tensor,
        same: torch.Tensor,
    ) -> torch.Tensor:
        """The first two terms of eq. 5, weighted.

        Args:
            images: as for `of_masks`.
            captions: as for `of_masks`.
            pairs: as for `of_masks`.
            same: as for `of_masks`.
        """
        total = images.new_zeros(())
        if not (self.image_to_sentence or self.sentence_to_image):
            return total
        scores = -distances(images @ captions.T)
        if self.image_to_sentence:
            total = total + self.image_to_sentence * self.term(self.ranking, scores, pairs, same)
        if self.sentence_to_image:
            by_caption = self.term(self.ranking, scores.T, pairs.T, same.T)
            total = total + self.sentence_to_image * by_caption
        return total

    def within_views(
        self,
        images: torch.Tensor,
        captions: torch.Tensor,
        same_images: torch.Tensor,
        same_captions: torch.Tensor,
    ) -> torch.Tensor:
        """The last two terms of eq. 5, weighted.

        Args:
            images: as for `of_masks`.
            captions: as for `of_masks`.
            same_images: as for `of_masks`.
            same_captions: as for `of_masks`.
        """
        total = images.new_zeros(())
        for weight, rows, same in (
            (self.image_image, images, same_images),
            (self.sentence_sentence, captions, same_captions),
        ):
            if weight:
                pairs = same.clone().fill_diagonal_(False)  # an anchor is not its own neighbour
                scores = -distances(rows @ rows.T)
                total = total + weight * self.term(self.neighbours, scores, pairs, same)
        return total

    def term(
        self, ranking: RankingLoss, scores: torch.Tensor, pairs: torch.Tensor, same: torch.Tensor
    ) -> torch.Tensor:
        """One unweighted term of eq. 5, reduced.

        Args:
            ranking: the loss of this term.
            scores: (A, N), anchors in rows.
            pairs: (A, N) bool, the positive pairs.
            same: (A, N) bool, True where a column is no negative of its row.
        """
        total: torch.Tensor = ranking(scores, pairs, ~same)
        return total / pairs.sum().clamp_min(1) if self.reduction == "mean" else total


def distances(cosines: torch.Tensor) -> torch.Tensor:
    """Euclidean distances sqrt(2 - 2 s) of unit vectors from their inner products s, any shape.

    The gradient of a square root at 0 is infinite, and captions of the same words, or a collapsed
    network, do lie at distance 0; rounding even makes 2 - 2 s negative. Below one rounding error
    of s nothing is known of the distance: there it is held constant, at 3e-4 in float32, and
    passes no gradient.
    """
    return (2 - 2 * cosines).clamp_min(torch.finfo(cosines.dtype).eps).sqrt()
