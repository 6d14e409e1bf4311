"""How SCAN compares the two sides of a query."""

from torch import Tensor

from models.attention.queries import Embedded, RegionQueries
from models.attention.scoring import mean_vectors
from models.scan.network import SCAN

BESIDE = ("detector",)


class SCANQueries(RegionQueries):
    """Vectors as models.attention.scoring keeps them."""

    network = SCAN

    def image_vectors(self, images: Embedded, /) -> Tensor:
        """Unit means (N, K)."""
        return mean_vectors(*images)

    caption_vectors = image_vectors

    def score(self, images: Embedded, captions: Embedded) -> Tensor:
        """Similarities (N, M)."""
        scores: Tensor = self.model.score(*images, *captions)
        return scores


queries = SCANQueries
