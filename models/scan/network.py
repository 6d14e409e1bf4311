"""SCAN (Lee et al. 2018): an image and a caption are compared by regions and words."""

import torch
from torch import Tensor, nn

from models.attention.cosines import attended_cosines, attention_weights, without_padding
from models.attention.encoders import BiGRUEncoder, RegionEncoder
from models.attention.pooling import pool_cosines
from models.layers.linear import Divide, undivided, unit_rows


class SCAN(nn.Module):
    """Stacked cross attention between regions and words (Lee et al. 2018)."""

    def __init__(
        self,
        image_dim: int,  # D of the region features
        vocabulary_size: int,  # V
        word_dim: int,  # width of a word embedding
        dim: int,  # K of the joint space
        direction: str = "t2i",  # t2i, words attend to regions, or i2t, regions to words
        pooling: str = "mean",  # of the attending side's cosines, mean or lse (LogSumExp)
        temperature: float = 9.0,  # lambda_1 of the attention (published: t2i 9, i2t 4)
        lse: float = 6.0,  # lambda_2 of the pooling (6; i2t 5 or 20), read by lse alone
        position_gate: bool = False,  # whether the region encoder has DP-RNN's gate
    ) -> None:
        super().__init__()
        self.direction, self.pooling = direction, pooling
        self.temperature, self.lse = temperature, lse
        self.regions = RegionEncoder(image_dim, dim, position_gate)
        self.text = BiGRUEncoder(vocabulary_size, word_dim, dim)

    def embed_images(self, features: Tensor, positions: Tensor, counts: Tensor) -> Tensor:
        """Regions (B, R, D) to unit vectors (B, R, K), zeros in the padding. positions: (B, R, 4)
        width, height, centre x, centre y as shares of the image; counts: (B,) regions that
        exist."""
        return unit_vectors(without_padding(self.regions(features, positions), counts))

    def embed_captions(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Padded word ids (B, T) with lengths (B,) on the CPU to unit vectors (B, T, K), zeros in
        the padding."""
        return unit_vectors(self.text(tokens, lengths))

    def score(self, regions: Tensor, counts: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """Similarity (N, M) float32 of every image with every caption. regions: (N, R, K) unit
        vectors, of which counts (N,) exist; words: (M, T, K) unit vectors, of which lengths (M,)
        exist. Memory: N R M T floats, as many again for gradients. Under autocast inner products
        have its type."""
        device = regions.device.type
        half = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        to_words = self.direction == "i2t"
        sides = (regions, words, counts, lengths) if to_words else (words, regions, lengths, counts)
        cosines = attended_cosines(*sides, self.temperature, reduced=half)
        scores = pool_cosines(cosines, sides[2], self.pooling, self.lse)
        return scores if to_words else scores.T

    def attention(self, regions: Tensor, counts: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """Attention weights (N, M, T, R) for pictures; arguments as for `score`. t2i: each word's
        weights sum to 1 over the regions; i2t: each region's over the words."""
        to_words = self.direction == "i2t"
        sides = (regions, words, counts, lengths) if to_words else (words, regions, lengths, counts)
        weights = attention_weights(*sides, self.temperature)
        return weights.transpose(2, 3) if to_words else weights.transpose(0, 1)

    def forward(
        self,
        features: Tensor,
        positions: Tensor,
        counts: Tensor,
        tokens: Tensor,
        lengths: Tensor,
        divide: Divide = undivided,
    ) -> Tensor:
        """Similarities (B, B) float32, images in rows, of a batch. features: (B, R, D) of the
        regions; positions, counts: as in `embed_images`; tokens: (B, T) word ids, padded at the
        end; lengths: (B,) on the CPU; divide: how rows are shared."""
        regions = divide(self.embed_images, features, positions, counts)
        words = divide(self.embed_captions, tokens, lengths)
        scores: Tensor = divide(
            lambda part, existing: self.score(part, existing, words, lengths), regions, counts
        )
        return scores


def unit_vectors(vectors: Tensor) -> Tensor:
    """Vectors (B, T, K) divided by their L2 norms, at least float32; zeros stay zero."""
    return unit_rows(vectors.flatten(0, 1)).view(vectors.shape)
