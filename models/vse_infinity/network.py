"""VSE-infinity (Chen et al. 2021): an image and a caption as pooled sets of vectors."""

import torch
from torch import Tensor, nn

from models.attention.encoders import BiGRUEncoder
from models.layers.linear import Divide, Standardise, glorot_linear, inside, undivided, unit_rows
from models.layers.sets import POOLS


class VSEInfinity(nn.Module):
    """Regions and words in one space, each side pooled to a unit row (Chen et al. 2021, section 3).
    A region goes through a linear layer, to which the result of a perceptron of two layers is
    added; words go through a bidirectional GRU, states of tokens through a linear layer. As in the
    authors' code the perceptron is half as wide within, with batch norm and ReLU.

    In training some regions and words or tokens are left out, so that sets of all sizes are seen:
    each with the probability drop_regions or drop_words, but one of every set stays.
    """

    def __init__(
        self,
        image_dim: int,  # D of the region features
        vocabulary_size: int,  # V; not read with token states
        word_dim: int,  # width of a word embedding; likewise
        dim: int,  # K of the joint space
        image_mlp: bool = True,  # whether the perceptron is there
        image_pool: str = "gpo",  # of models.layers.sets.POOLS
        text_pool: str = "gpo",
        drop_regions: float = 0.0,
        drop_words: float = 0.0,
        state_dim: int = 0,  # E of a token state; 0: it reads word ids
    ) -> None:
        super().__init__()
        self.drop_regions, self.drop_words = drop_regions, drop_words
        self.standardise = Standardise(image_dim)
        self.projection = glorot_linear(image_dim, dim)
        self.perceptron = _perceptron(image_dim, dim) if image_mlp else None
        self.image_pool, self.text_pool = POOLS[image_pool](), POOLS[text_pool]()
        self.text: nn.Module
        if state_dim:
            self.text = glorot_linear(state_dim, dim)
        else:
            self.text = BiGRUEncoder(vocabulary_size, word_dim, dim)

    def embed_images(self, features: Tensor, positions: Tensor, counts: Tensor) -> Tensor:
        """Regions (B, R, D), of which counts (B,) exist, to unit rows (B, K), zeros for an image
        without any; their positions (B, R, 4) play no part."""
        present = inside(counts, features.shape[1], features.device)
        regions = self.standardise(features[present])  # padding would count in the batch norm
        vectors = self.projection(regions)
        if self.perceptron is not None:
            vectors = vectors + self.perceptron(regions)
        items = vectors.new_zeros(*present.shape, vectors.shape[1])
        items[present] = vectors
        return unit_rows(self.image_pool(items, counts))

    def embed_captions(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Padded word ids (B, T), or token states (B, T, E), with lengths (B,) on the CPU to unit
        rows (B, K)."""
        inputs = (tokens.float(),) if isinstance(self.text, nn.Linear) else (tokens, lengths)
        return unit_rows(self.text_pool(self.text(*inputs), lengths))

    def forward(
        self,
        features: Tensor,
        positions: Tensor,
        counts: Tensor,
        tokens: Tensor,
        lengths: Tensor,
        divide: Divide = undivided,
    ) -> Tensor:
        """Cosines (B, B) float32, images in rows, of a batch. features: (B, R, D) of the regions;
        counts: (B,) of these that exist; tokens: (B, T) word ids, or (B, T, E) states, padded
        at the end; counts and lengths: on the CPU; divide: how rows are shared."""
        if self.training:
            features, counts = thinned(features, counts, self.drop_regions)
            tokens, lengths = thinned(tokens, lengths, self.drop_words)
        left = divide(self.embed_images, features, positions, counts)
        right = divide(self.embed_captions, tokens, lengths)
        # bf16 keeps 3 digits of a cosine: too few beside a margin of 0.2
        with torch.autocast(features.device.type, enabled=False):
            return left @ right.T


def thinned(items: Tensor, counts: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Sets (B, R, ...) without some of their counts (B,) items, and what is left (B,), in the same
    order and padded at the end. Each item is left out with the probability `share`; of a set that
    would lose all, the one with the largest draw stays."""
    if not share:
        return items, counts
    present = inside(counts, items.shape[1], torch.device("cpu"))
    draws = torch.rand(present.shape).where(present, -1.0)
    kept = present & ((draws >= share) | (draws == draws.amax(1, keepdim=True)))
    counts = kept.sum(1)
    order = (~kept).int().argsort(dim=1, stable=True)[:, : max(int(counts.max()), 1)]
    return items[torch.arange(len(items))[:, None], order], counts


def _perceptron(inputs: int, outputs: int) -> nn.Sequential:
    hidden = max(outputs // 2, 1)
    # batch norm subtracts the mean, and with it any bias of the layer before
    first = nn.Linear(inputs, hidden, bias=False)
    return nn.Sequential(first, nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, outputs))
