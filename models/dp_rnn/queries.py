"""How DP-RNN compares the two sides of a query."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from models.attention.queries import Embedded, RegionQueries
from models.dp_rnn.network import DPRNN

BESIDE = ("detector",)


class DPRNNQueries(RegionQueries):
    """Vectors as models.dp_rnn.scoring keeps them; every pair is scored in full."""

    network = DPRNN

    def image_vectors(self, images: Embedded, /) -> Tensor:
        """Unit vectors (N, K)."""
        return normalize(self.model.image_vectors(images[0]).float(), dim=1)

    def caption_vectors(self, captions: Embedded, /) -> Tensor:
        """Unit vectors (M, K)."""
        return normalize(self.model.caption_vectors(captions[0]).float(), dim=1)

    def score(self, images: Embedded, captions: Embedded) -> Tensor:
        """Similarities (N, M), with recurrence where the model has it."""
        (regions, counts), (words, lengths) = images, captions
        if not self.model.use_recurrence:
            scores: Tensor = self.model.score(regions, words)
            return scores
        every = torch.arange(len(counts), device=self.device).expand(len(lengths), -1)
        return self.model.score_selected(regions, words, every).T


queries = DPRNNQueries
