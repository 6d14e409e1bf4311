"""The loss of the dual path: ranking and instance terms on the same vectors, weighted by phase."""

import torch
from torch import Tensor, nn

from models.dual_path.instance import InstanceLoss
from models.layers.linear import unit_rows
from models.losses import PairLoss


class DualPathLoss(nn.Module):
    """Weighted sum of ranking and instance losses (Zheng et al. 2020, eq. 9). ranking: on cosines
    (eq. 4), as a mean over the batch; instance: on the vectors as they are (eq. 5 to 8)."""

    def __init__(self, ranking: PairLoss, instance: InstanceLoss) -> None:
        super().__init__()
        self.ranking, self.instance = ranking, instance

    def forward(
        self,
        images: Tensor,
        captions: Tensor,
        groups: Tensor,
        labels: Tensor,
        weights: tuple[float, float, float],
        errors: dict[str, Tensor] | None = None,
        related: Tensor | None = None,
    ) -> Tensor:
        """The loss of one batch, a scalar; a term of weight 0 is left out.

        images, captions: (B, K), row b of both a pair; groups: (B,), related: (B, B) as in
        PairLoss; labels: (B,) classes; weights: of the ranking term and of the instance terms of
        images and captions (lambda_1 to lambda_3); errors: as in InstanceLoss.
        """
        ranking, image_instance, text_instance = weights
        total = images.new_zeros((), dtype=torch.float32)
        if ranking:
            with torch.autocast(images.device.type, enabled=False):
                scores = unit_rows(images) @ unit_rows(captions).T
            total = total + ranking * self.ranking(scores, groups, related=related)
        if image_instance or text_instance:
            of_images, of_captions = self.instance(images, captions, labels, errors)
            total = total + image_instance * of_images + text_instance * of_captions
        return total
