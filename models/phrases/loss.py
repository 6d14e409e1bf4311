"""The two-branch loss of a batch in which regions and phrases belong together many to many."""

import torch
from torch import nn

from models.two_branch.loss import StructureLoss


class PhraseLoss(nn.Module):
    """Eq. 5 of Wang et al. 2016 on regions (their images) and phrases (their sentences).

    Args:
        structure: the loss with its weights.
    """

    def __init__(self, structure: StructureLoss) -> None:
        super().__init__()
        self.structure = structure

    def forward(
        self,
        regions: torch.Tensor,
        phrases: torch.Tensor,
        pairs: torch.Tensor,
        same: torch.Tensor,
        same_regions: torch.Tensor,
        same_phrases: torch.Tensor,
    ) -> torch.Tensor:
        """The loss of one batch, a scalar.

        Args:
            regions: (R, K) unit rows.
            phrases: (C, K) unit rows.
            pairs: (R, C) bool, which belong together.
            same: (R, C) bool, True where neither is a negative of the other.
            same_regions: (R, R) bool, neighbours, and True on the diagonal.
            same_phrases: (C, C) bool likewise.
        """
        masks = pairs, same, same_regions, same_phrases
        return self.structure.of_masks(regions, phrases, *masks)
