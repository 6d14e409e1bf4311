"""Canonical correlation analysis as a model: nothing to learn here, only to apply."""

import torch
from torch import Tensor, nn

from models.layers.linear import unit_rows


class CCA(nn.Module):
    """Image features and sentence vectors in the space of normalised CCA (Gong et al. 2014):
    centred, times canonical weights scaled by a power of the correlations, L2-normalised. All zero
    at first. image_dim: Dx; sentence_dim: Dy; dim: K of the joint space."""

    def __init__(self, image_dim: int, sentence_dim: int, dim: int) -> None:
        super().__init__()
        self.image_mean: Tensor
        self.image_weights: Tensor
        self.sentence_mean: Tensor
        self.sentence_weights: Tensor
        self.register_buffer("image_mean", torch.zeros(image_dim))
        self.register_buffer("image_weights", torch.zeros(image_dim, dim))
        self.register_buffer("sentence_mean", torch.zeros(sentence_dim))
        self.register_buffer("sentence_weights", torch.zeros(sentence_dim, dim))

    def embed_images(self, images: Tensor) -> Tensor:
        """Image features (B, Dx) to unit rows (B, K); a row equal to the mean stays zero."""
        return unit_rows((images - self.image_mean) @ self.image_weights)

    def embed_captions(self, vectors: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Sentence vectors (B, Dy) to unit rows (B, K); lengths are not read."""
        return unit_rows((vectors - self.sentence_mean) @ self.sentence_weights)
