"""The loss of the two-branch network, ranking across the views and neighbourhoods within each, of
embeddings with their groups."""

import torch
from torch import Tensor, nn

from models.layers.linear import at_least_float32
from models.losses import RankingLoss
from models.losses.knn_margin import KNNMargin


class StructureLoss(nn.Module):
    """Eq. 5 of Wang et al. 2016: hinges [margin + d(anchor, positive) - d(anchor, negative)]+.

    d is the Euclidean distance of unit vectors. The paper's top K violations are knn_margin with
    k = 50. A term of weight 0 is not computed.
    """

    def __init__(
        self,
        ranking: RankingLoss,  # of the cross-view terms, on scores -d
        margin: float,  # m of the within-view terms, in units of d
        structure_k: int = 50,  # hardest negatives that these count
        image_to_sentence: float = 1.0,  # weight of its term (1 in the paper)
        sentence_to_image: float = 2.0,  # weight of its term (lambda 1)
        image_image: float = 0.0,  # weight of its term (lambda 2)
        sentence_sentence: float = 0.2,  # weight of its term (lambda 3)
        reduction: str = "sum",  # or mean: each term divided by its number of positive pairs
    ) -> None:
        super().__init__()
        self.ranking, self.neighbours = ranking, KNNMargin(margin, structure_k)
        self.image_to_sentence, self.sentence_to_image = image_to_sentence, sentence_to_image
        self.image_image, self.sentence_sentence = image_image, sentence_sentence
        self.reduction = reduction

    def forward(
        self,
        images: Tensor,
        captions: Tensor,
        image_groups: Tensor,
        caption_groups: Tensor,
        related: Tensor | None = None,
    ) -> Tensor:
        """The loss of one batch, a scalar; a term without positive pairs, or without negatives,
        adds 0.

        images: (I, K) and captions: (C, K), unit rows; image_groups: (I,) and caption_groups: (C,),
        integers, equal where two of them belong together; related: (I, C) bool, pairs that are
        neither positive nor negative, None for none.
        """
        same = image_groups[:, None] == caption_groups[None, :]
        alike = [groups[:, None] == groups[None, :] for groups in (image_groups, caption_groups)]
        left_out = same if related is None else same | related
        return self.of_masks(images, captions, same, left_out, *alike)

    def of_masks(
        self,
        images: Tensor,
        captions: Tensor,
        pairs: Tensor,
        same: Tensor,
        same_images: Tensor,
        same_captions: Tensor,
    ) -> Tensor:
        """The loss of a batch, a scalar of at least float32, whose items belong together in other
        ways than by groups.

        images: (I, K) and captions: (C, K), unit rows; pairs: (I, C) bool, the positive pairs;
        same: (I, C) bool, True where neither is a negative of the other; same_images: (I, I) and
        same_captions: (C, C) bool, True for neighbours and on the diagonal.
        """
        # bf16 keeps 3 digits of an inner product: too few beside a margin of 0.1
        with torch.autocast(images.device.type, enabled=False):
            images, captions = at_least_float32(images), at_least_float32(captions)
            within, across = images.new_zeros(()), images.new_zeros(())
            for weight, rows, alike in (
                (self.image_image, images, same_images),
                (self.sentence_sentence, captions, same_captions),
            ):
                if weight:
                    others = alike.clone().fill_diagonal_(False)  # an anchor is not its neighbour
                    scores = -distances(rows @ rows.T)
                    within = within + weight * self.term(self.neighbours, scores, others, alike)
            if not (self.image_to_sentence or self.sentence_to_image):
                return across + within
            scores = -distances(images @ captions.T)
            if self.image_to_sentence:
                by_image = self.term(self.ranking, scores, pairs, same)
                across = across + self.image_to_sentence * by_image
            if self.sentence_to_image:
                by_caption = self.term(self.ranking, scores.T, pairs.T, same.T)
                across = across + self.sentence_to_image * by_caption
            return across + within

    def term(self, ranking: RankingLoss, scores: Tensor, pairs: Tensor, same: Tensor) -> Tensor:
        """One unweighted term of eq. 5, reduced; scores: (A, N), anchors in rows; pairs, same: (A,
        N) bool."""
        total: Tensor = ranking(scores, pairs, ~same)
        return total / pairs.sum().clamp_min(1) if self.reduction == "mean" else total


def distances(cosines: Tensor) -> Tensor:
    """Euclidean distances sqrt(2 - 2 s) of unit vectors from their inner products s, any shape.
    Those below one rounding error of s are held constant, at 3e-4 in float32, and pass no gradient:
    that of a square root at 0 is infinite."""
    return (2 - 2 * cosines).clamp_min(torch.finfo(cosines.dtype).eps).sqrt()
