"""The two-branch loss of a batch in which regions and phrases belong together many to many."""

from torch import Tensor

from models.two_branch.loss import StructureLoss


class PhraseLoss(StructureLoss):
    """Eq. 5 of Wang et al. 2016 on regions (their images) and phrases (their sentences)."""

    def forward(self, *batch: Tensor) -> Tensor:  # type: ignore[override]
        """As `of_masks`, with the four masks of a PhraseBatch."""
        return self.of_masks(*batch)
