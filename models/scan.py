"""SCAN: words attend to regions, or regions to words (Lee et al. 2018).

A pair's score is pooled from the cosines of every word, or region, with what it attended to. The
attention itself is in models/attention, which DP-RNN shares.
"""

from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from models.attention.cosines import attended_cosines, attention_weights, without_padding
from models.attention.encoders import BiGRUEncoder, RegionEncoder
from models.attention.pooling import pool_cosines
from models.base import AttentionView, Model, mean_vectors, part_of
from models.layers.linear import l2_normalise
from pipeline.features.data import CaptionWords, ImageRegions, Inputs, RetrievalData
from pipeline.features.regions.boxes import require_boxes
from pipeline.features.split import Regions, Words
from pipeline.runtime.section import Count, Positive
from pipeline.training.params import TrainingConfig, WordsConfig

BLOCK_PRODUCTS = 1 << 21  # of a region and a word at once in evaluation: 8 MB per tensor of them


class SCANConfig(WordsConfig):
    """The section `scan` of params.yaml; the paper's values are in parentheses."""

    dim: Count = 128  # K of the joint space (1024)
    direction: Literal["t2i", "i2t"] = "t2i"  # words attend to regions, or regions to words
    pooling: Literal["mean", "lse"] = "mean"  # of the attending side's cosines
    temperature: Positive = 9.0  # lambda_1 of the attention, inverse (t2i 9, i2t 4)
    lse: Positive = 6.0  # lambda_2, read by lse alone (t2i 6, i2t 5 or 20)
    position_gate: bool = False  # whether the region encoder has DP-RNN's gate
    training: TrainingConfig = TrainingConfig(epochs=3, batch_size=64, lr=0.001, lr_step=2)


class Side(NamedTuple):
    """Regions of images, or words of captions."""

    vectors: Tensor  # (B, L, K) unit vectors, zeros in the padding
    lengths: Tensor  # (B,) how many exist, on the vectors' device


class SCAN(Model):
    """Stacked cross attention between regions and words.

    Args:
        config: The section of params.yaml.
        image_dim: D of a region's features.
        vocabulary_size: V; word 0 is padding.
    """

    Config = SCANConfig
    NEEDS: ClassVar = {"features": "data/features/regions.h5", "text": "data/vocabulary"}
    VECTORS = False

    def __init__(self, config: SCANConfig, image_dim: int, vocabulary_size: int) -> None:
        super().__init__(config)
        self.regions = RegionEncoder(image_dim, config.dim, config.position_gate)
        self.text = BiGRUEncoder(vocabulary_size, config.word_dim, config.dim)

    @classmethod
    def open_data(cls, config: SCANConfig, files: Inputs, in_memory: bool = True) -> RetrievalData:
        """Regions and word ids.

        Args:
            config: The section of params.yaml; a position gate needs boxes.
            files: The artefacts of NEEDS.
            in_memory: Whether features are read into memory where they fit.

        Returns:
            What the model reads.

        Raises:
            WorkbenchError: The regions have no boxes, and config.position_gate needs them.
        """
        images = ImageRegions(files.features, in_memory)
        if config.position_gate:
            require_boxes(images.file, "scan.position_gate")
        return RetrievalData(files, images, CaptionWords(files.text))

    def embed_images(self, images: Regions) -> Side:  # type: ignore[override]
        """Regions (B, R, D) to unit vectors (B, R, K)."""
        vectors = self.regions(images.features, images.positions)
        return unit_side(without_padding(vectors, images.counts), images.counts)

    def embed_captions(self, captions: Words) -> Side:  # type: ignore[override]
        """Words (B, T) to unit vectors (B, T, K)."""
        return unit_side(self.text(captions.ids, captions.lengths), captions.lengths)

    def index(self, side: Side) -> Tensor:
        """The direction (B, K) of the mean vector of a set, for a shortlist in search."""
        return mean_vectors(side.vectors, side.lengths)

    def score(self, images: Side, captions: Side) -> Tensor:
        """Similarities of all pairs.

        In evaluation images are taken in parts, so that memory holds BLOCK_PRODUCTS inner products
        of a region and a word, or those of one image.

        Args:
            images: N images.
            captions: M captions.

        Returns:
            (N, M), at least float32. Under autocast inner products have its type.
        """
        if self.training:
            return self.score_part(images, captions)
        words = captions.vectors.shape[0] * captions.vectors.shape[1]
        size = max(1, BLOCK_PRODUCTS // (images.vectors.shape[1] * words))
        starts = range(0, len(images.lengths), size)
        parts = [part_of(images, slice(start, start + size)) for start in starts]
        return torch.cat([self.score_part(part, captions) for part in parts])

    def score_part(self, images: Side, captions: Side) -> Tensor:
        """Similarities of all pairs at once; memory holds N R M T floats, as many for gradients.

        Args:
            images: N images.
            captions: M captions.

        Returns:
            (N, M), at least float32.
        """
        device = images.vectors.device.type
        half = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        queries, contexts = self.attending(images, captions)
        cosines = attended_cosines(
            queries.vectors,
            contexts.vectors,
            queries.lengths,
            contexts.lengths,
            self.config.temperature,
            reduced=half,
        )
        scores = pool_cosines(cosines, queries.lengths, self.config.pooling, self.config.lse)
        return scores if self.config.direction == "i2t" else scores.T

    def attending(self, images: Side, captions: Side) -> tuple[Side, Side]:
        """The side that attends, and the one that is attended to.

        Args:
            images: N images.
            captions: M captions.

        Returns:
            Queries and contexts.
        """
        return (images, captions) if self.config.direction == "i2t" else (captions, images)

    @torch.no_grad()
    def attention(self, images: Regions, captions: Words) -> AttentionView:  # type: ignore[override]
        """The weights of one image and one caption, which sum to 1 over the attended side.

        Args:
            images: One image, without padding.
            captions: One caption, without padding.

        Returns:
            The weights (T, R), and the score of the pair.
        """
        regions = self.embed_images(images)
        words = self.embed_captions(captions)
        queries, contexts = self.attending(regions, words)
        weights = attention_weights(
            queries.vectors,
            contexts.vectors,
            queries.lengths,
            contexts.lengths,
            self.config.temperature,
        )[0, 0]
        by_words = weights.T if self.config.direction == "i2t" else weights  # (T, R)
        own = by_words[: int(captions.lengths[0]), : int(images.counts[0])]
        return AttentionView(self.score(regions, words).item(), own)


def unit_side(vectors: Tensor, lengths: Tensor) -> Side:
    """Vectors divided by their L2 norms, at least float32; zeros stay zero.

    Args:
        vectors: (B, L, K).
        lengths: (B,) how many exist, on any device.

    Returns:
        The unit vectors, and their numbers on the same device.
    """
    units = l2_normalise(vectors.flatten(0, 1)).view(vectors.shape)
    return Side(units, lengths.to(vectors.device))
