"""How SCAN embeds and compares the two sides of a query."""

import torch

from models.attention.queries import RegionQueries
from models.attention.scoring import EmbeddedRegions, mean_vectors
from models.base.queries import Files
from models.scan.network import SCAN
from pipeline.inputs.regions import Regions
from pipeline.storage.checkpoint import Checkpoint

BESIDE = ("detector",)


class SCANQueries(RegionQueries):
    """Vectors as models.attention.scoring keeps them."""

    network = SCAN

    def embed_regions(self, regions: Regions) -> EmbeddedRegions:
        """N images."""
        made = self.model.embed_images(regions.features, regions.positions, regions.counts)
        return EmbeddedRegions(made, regions.counts)

    def embed_words(self, tokens: torch.Tensor, lengths: torch.Tensor) -> EmbeddedRegions:
        """M captions, whose words are kept as regions are."""
        return EmbeddedRegions(self.model.embed_captions(tokens, lengths), lengths)

    def vectors(
        self, images: EmbeddedRegions | None = None, captions: EmbeddedRegions | None = None
    ) -> torch.Tensor:
        """Unit means (B, K)."""
        side = images or captions
        assert side is not None
        return mean_vectors(side.vectors, side.counts)

    def score(self, images: EmbeddedRegions, captions: EmbeddedRegions) -> torch.Tensor:
        """Similarities (N, M)."""
        pair = images.vectors, images.counts, captions.vectors, captions.counts
        scores: torch.Tensor = self.model.score(*pair)
        return scores


def queries(files: Files, checkpoint: Checkpoint, device: torch.device) -> SCANQueries:
    """The trained model as something that can be searched with.

    Args:
        files: its artefacts by the options of `stages.score`.
        checkpoint: its weights.
        device: where it runs.

    Raises:
        WorkbenchError: artefacts that are not those of the training.
    """
    return SCANQueries(files, checkpoint, device)
