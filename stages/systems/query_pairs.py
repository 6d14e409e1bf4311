"""How SCAN and DP-RNN embed and compare the two sides of a query."""

import torch
from torch.nn.functional import normalize

from models.dp_rnn import DPRNN, Sides
from models.scan import SCAN
from pipeline.pair_scoring import EmbeddedRegions, mean_vectors
from pipeline.region_rows import Regions
from stages.systems.query_regions import RegionQueries


class SCANQueries(RegionQueries):
    """Vectors as pipeline.pair_scoring keeps them."""

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


class DPRNNQueries(RegionQueries):
    """Vectors as pipeline.dp_rnn_scoring keeps them; every pair is scored in full."""

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
