"""SCAN (Lee et al. 2018): an image and a caption are compared by regions and words, not as wholes.

The encoders, the cross attention and the pooling serve DP-RNN as well.
"""

import torch
from torch import nn

from models.attention.cosines import attended_cosines, attention_weights, inside, without_padding
from models.attention.pooling import POOLINGS, pool_cosines
from models.attention.regions import RegionEncoder
from models.attention.words import BiGRUEncoder
from models.layers.dividing import Divide, undivided
from models.layers.linear import unit_rows

DIRECTIONS = ("t2i", "i2t")


class SCAN(nn.Module):
    """Stacked cross attention between regions and words (Lee et al. 2018).

    Args:
        image_dim: D of the region features.
        vocabulary_size: V.
        word_dim: width of a word embedding.
        dim: K of the joint space.
        direction: t2i, words attend to regions, or i2t, regions to words.
        pooling: of the attending side's cosines, mean or lse (LogSumExp).
        temperature: lambda_1 of the attention (published: t2i 9, i2t 4).
        lse: lambda_2 of the pooling (6; i2t 5 or 20), read by lse alone.
        position_gate: whether the region encoder has DP-RNN's gate.

    Raises:
        ValueError: another direction or pooling.
    """

    def __init__(
        self,
        image_dim: int,
        vocabulary_size: int,
        word_dim: int,
        dim: int,
        direction: str = "t2i",
        pooling: str = "mean",
        temperature: float = 9.0,
        lse: float = 6.0,
        position_gate: bool = False,
    ) -> None:
        super().__init__()
        _check("direction", direction, DIRECTIONS)
        _check("pooling", pooling, POOLINGS)
        self.direction, self.pooling = direction, pooling
        self.temperature, self.lse = temperature, lse
        self.regions = RegionEncoder(image_dim, dim, position_gate)
        self.text = BiGRUEncoder(vocabulary_size, word_dim, dim)

    def standardise_images(self, mean: torch.Tensor, deviation: torch.Tensor) -> None:
        """Centre and scale region features by the training regions' mean and deviation, (D,)."""
        self.regions.standardise.fit(mean, deviation)

    def initialise_words(self, matrix: torch.Tensor) -> None:
        """Start the word embeddings from `matrix` (V, word_dim)."""
        self.text.initialise_words(matrix)

    def embed_images(
        self, features: torch.Tensor, positions: torch.Tensor, counts: torch.Tensor
    ) -> torch.Tensor:
        """Regions to unit vectors.

        Args:
            features: (B, R, D).
            positions: (B, R, 4) width, height, centre x, centre y as shares of the image.
            counts: (B,) regions that exist.

        Returns:
            (B, R, K), zeros in the padding.
        """
        return unit_vectors(without_padding(self.regions(features, positions), counts))

    def embed_captions(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Padded word ids (B, T) with lengths (B,) on the CPU to unit vectors (B, T, K).

        Zeros in the padding.
        """
        return unit_vectors(self.text(tokens, lengths))

    def score(
        self,
        regions: torch.Tensor,
        counts: torch.Tensor,
        words: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """Similarity of every image with every caption.

        Memory: N R M T floats, as many again for gradients; models.attention.scoring calls it in
        blocks. Under autocast inner products of regions and words have its type.

        Args:
            regions: (N, R, K) unit vectors.
            counts: (N,) regions that exist.
            words: (M, T, K) unit vectors.
            lengths: (M,) words that exist.

        Returns:
            (N, M) float32, images in rows.
        """
        device = regions.device.type
        half = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        if self.direction == "t2i":
            sides = words, regions, lengths, counts
            cosines = attended_cosines(*sides, self.temperature, reduced=half)
            return pool_cosines(cosines, inside(lengths, words), self.pooling, self.lse).T
        sides = regions, words, counts, lengths
        cosines = attended_cosines(*sides, self.temperature, reduced=half)
        return pool_cosines(cosines, inside(counts, regions), self.pooling, self.lse)

    def attention(
        self,
        regions: torch.Tensor,
        counts: torch.Tensor,
        words: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """Attention weights for pictures.

        Args:
            regions: (N, R, K) unit vectors.
            counts: (N,) regions that exist.
            words: (M, T, K) unit vectors.
            lengths: (M,) words that exist.

        Returns:
            (N, M, T, R), words before regions. t2i: each word's sum to 1 over the regions; i2t:
            each region's over the words.
        """
        if self.direction == "t2i":
            weights = attention_weights(words, regions, lengths, counts, self.temperature)
            return weights.transpose(0, 1)
        weights = attention_weights(regions, words, counts, lengths, self.temperature)
        return weights.transpose(2, 3)

    def forward(
        self,
        features: torch.Tensor,
        positions: torch.Tensor,
        counts: torch.Tensor,
        tokens: torch.Tensor,
        lengths: torch.Tensor,
        divide: Divide = undivided,
    ) -> torch.Tensor:
        """Similarities of a batch's images and captions.

        Args:
            features: (B, R, D) of the regions.
            positions: (B, R, 4) width, height, centre x, centre y as shares of the image.
            counts: (B,) regions that exist.
            tokens: (B, T) word ids, padded at the end.
            lengths: (B,) words that exist, on the CPU.
            divide: how rows are shared.

        Returns:
            (B, B) float32, images in rows.
        """
        regions = divide(self.embed_images, features, positions, counts)
        words = divide(self.embed_captions, tokens, lengths)
        scores: torch.Tensor = divide(
            lambda part, existing: self.score(part, existing, words, lengths), regions, counts
        )
        return scores


def unit_vectors(vectors: torch.Tensor) -> torch.Tensor:
    """Vectors (B, T, K) divided by their L2 norms, at least float32; zeros stay zero."""
    return unit_rows(vectors.flatten(0, 1)).view(vectors.shape)


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} {value!r}: allowed are {', '.join(allowed)}")
