"""Visual semantic embedding: the plain baseline that the other models are measured against."""

import torch
from torch import Tensor, nn

from models.layers.linear import Divide, Standardise, glorot_linear, undivided, unit_rows
from models.layers.words import RecurrentEncoder


class VSE(nn.Module):
    """Fixed image features and captions in one space (Sun et al. 2019, section 2.1, eq. 1), as unit
    rows. As in the paper the pooled state is the embedding; when `hidden` differs from `dim` a
    linear layer follows.

    image_dim: D of the image features; vocabulary_size: V; dim: K of the joint space; text_encoder:
    gru or lstm; text_pool: over the states of a caption, last, mean, max or gpo.
    """

    def __init__(
        self,
        image_dim: int,
        vocabulary_size: int,
        word_dim: int,
        hidden: int,
        dim: int,
        text_encoder: str = "gru",
        text_pool: str = "last",
    ) -> None:
        super().__init__()
        self.text = RecurrentEncoder(vocabulary_size, word_dim, hidden, text_encoder, text_pool)
        self.text_projection = nn.Identity() if hidden == dim else glorot_linear(hidden, dim)
        self.image_projection = glorot_linear(image_dim, dim)
        self.image_standardise = Standardise(image_dim)

    def embed_images(self, images: Tensor) -> Tensor:
        """Image features (B, D) to unit rows (B, K)."""
        return unit_rows(self.image_projection(self.image_standardise(images)))

    def embed_captions(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Padded word ids (B, T) with lengths (B,) on the CPU to unit rows (B, K)."""
        return unit_rows(self.text_projection(self.text(tokens, lengths)))

    def forward(
        self, images: Tensor, tokens: Tensor, lengths: Tensor, divide: Divide = undivided
    ) -> Tensor:
        """Cosines (B, B) float32, images in rows, of image features (B, D) with captions as word
        ids (B, T), padded at the end; lengths: (B,) words per caption, on the CPU."""
        left = divide(self.embed_images, images)
        right = divide(self.embed_captions, tokens, lengths)
        # bf16 keeps 3 digits of a cosine: too few beside a margin of 0.2
        with torch.autocast(images.device.type, enabled=False):
            return left @ right.T
