"""How DP-RNN embeds and compares the two sides of a query."""

import torch
from torch.nn.functional import normalize

from models.attention.queries import RegionQueries
from models.base.queries import Files
from models.dp_rnn.network import DPRNN, Sides
from pipeline.inputs.regions import Regions
from pipeline.storage.checkpoint import Checkpoint

BESIDE = ("detector",)


class DPRNNQueries(RegionQueries):
    """Vectors as models.dp_rnn.scoring keeps them; every pair is scored in full."""

    network = DPRNN

    def embed_regions(self, regions: Regions) -> Sides:
        """N images."""
        sides: Sides = self.model.embed_images(regions.features, regions.positions, regions.counts)
        return sides

    def embed_words(self, tokens: torch.Tensor, lengths: torch.Tensor) -> Sides:
        """M captions."""
        sides: Sides = self.model.embed_captions(tokens, lengths)
        return sides

    def vectors(self, images: Sides | None = None, captions: Sides | None = None) -> torch.Tensor:
        """Unit vectors (B, K)."""
        if images is not None:
            return normalize(self.model.image_vectors(images).float(), dim=1)
        return normalize(self.model.caption_vectors(captions).float(), dim=1)

    def score(self, images: Sides, captions: Sides) -> torch.Tensor:
        """Similarities (N, M), with recurrence where the model has it."""
        if not self.model.use_recurrence:
            scores: torch.Tensor = self.model.score(images, captions)
            return scores
        every = torch.arange(len(images[0].lengths), device=self.device)
        selected = every.expand(len(captions[0].lengths), -1)
        return self.model.score_selected(images, captions, selected).T


def queries(files: Files, checkpoint: Checkpoint, device: torch.device) -> DPRNNQueries:
    """The trained model as something that can be searched with.

    Args:
        files: its artefacts by the options of `stages.score`.
        checkpoint: its weights.
        device: where it runs.

    Raises:
        WorkbenchError: artefacts that are not those of the training.
    """
    return DPRNNQueries(files, checkpoint, device)
