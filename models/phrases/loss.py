"""The two-branch loss of a batch in which regions and phrases belong together many to many."""

import torch
from torch import nn

from models.two_branch.loss import StructureLoss


class PhraseLoss(nn.Module):
    """Eq. 5 of Wang et al. 2016 on regions (their images) and phrases (their sentences)."""

    def __init__(self, structure: StructureLoss) -> None:
        super().__init__()
        self.structure = structure

    def forward(
        self, regions: torch.Tensor, phrases: torch.Tensor, *masks: torch.Tensor
    ) -> torch.Tensor:
        """The loss of unit rows (R, K) and (C, K), a scalar; masks: the four of a PhraseBatch."""
        return self.structure.of_masks(regions, phrases, *masks)
