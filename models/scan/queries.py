"""How SCAN compares the two sides of a query, by vectors as models.attention.scoring keeps them."""

from functools import partial

from torch import Tensor

from models.attention.queries import Embedded, RegionQueries
from models.attention.scoring import mean_vectors
from models.scan.network import SCAN

BESIDE = ("detector",)


def vectors(_: SCAN, side: Embedded) -> Tensor:
    """Unit means (N, K)."""
    return mean_vectors(*side)


def score(model: SCAN, images: Embedded, captions: Embedded) -> Tensor:
    """Similarities (N, M)."""
    return model.score(*images, *captions)


queries = partial(RegionQueries, SCAN, vectors, vectors, score)
