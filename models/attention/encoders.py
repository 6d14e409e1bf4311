"""Encoders that turn regions and words into vectors of a joint space."""

import torch
from torch import Tensor, nn

from models.attention.bigru import bidirectional_mean
from models.layers.linear import Standardise, glorot_linear, length_mask
from models.layers.words import _RecurrentWords


class RegionEncoder(nn.Module):
    """One linear layer per region, times DP-RNN's position gate if wanted (Chen and Luo 2020): the
    gate is sigmoid(FC(width, height, centre x, centre y)).

    Args:
        image_dim: D of the region features.
        dim: K of the vectors.
        gate: whether there is a position gate.
    """

    def __init__(self, image_dim: int, dim: int, gate: bool) -> None:
        super().__init__()
        self.standardise = Standardise(image_dim)
        self.projection = glorot_linear(image_dim, dim)
        self.gate = glorot_linear(4, dim) if gate else None

    def forward(self, features: Tensor, positions: Tensor) -> Tensor:
        """The vector of each region, padding included.

        Args:
            features: (B, R, D) of regions.
            positions: (B, R, 4) width, height, centre x and centre y as shares of the image.

        Returns:
            (B, R, K).
        """
        vectors = self.projection(self.standardise(features))
        return vectors if self.gate is None else vectors * torch.sigmoid(self.gate(positions))


class BiGRUEncoder(_RecurrentWords):
    """Word embedding and bidirectional GRU, its directions averaged at every word (Chen and Luo
    2020, eq. 1-3; Lee et al. 2018).

    Args:
        vocabulary_size: V, row 0 is padding.
        word_dim: width of a word embedding.
        hidden: width of a direction's state, and of the result.
    """

    gru: nn.GRU

    def __init__(self, vocabulary_size: int, word_dim: int, hidden: int) -> None:
        super().__init__(vocabulary_size, word_dim, hidden, bidirectional=True, cell="gru")

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """The vector of each word.

        Args:
            tokens: (B, T) ids of words, padded at the end.
            lengths: (B,) numbers of words, at least 1, on the CPU.

        Returns:
            (B, T, hidden), zeros in the padding.
        """
        present = length_mask(lengths, tokens.shape[1], torch.device("cpu"))
        numbers = present.new_zeros(present.shape, dtype=torch.int64)
        numbers[present] = torch.arange(int(present.sum()))
        rows = self.words(tokens[present.to(tokens.device)])
        return bidirectional_mean(self.gru, rows, numbers, lengths)
