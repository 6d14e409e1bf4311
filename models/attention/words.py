"""Captions as word states: embedding and bidirectional GRU."""

import torch
from torch import Tensor, nn

from models.attention.bigru import bidirectional_mean
from models.layers.linear import inside
from models.layers.words import _RecurrentWords


class BiGRUEncoder(_RecurrentWords):
    """Word embedding and bidirectional GRU (Chen and Luo 2020, eq. 1-3; Lee et al. 2018)."""

    gru: nn.GRU

    def __init__(self, vocabulary_size: int, word_dim: int, hidden: int) -> None:
        super().__init__(vocabulary_size, word_dim, hidden, bidirectional=True, cell="gru")

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Word ids (B, T), padded at the end, of lengths (B,) on the CPU, at least 1, to one vector
        per word (B, T, hidden), zeros in the padding."""
        present = inside(lengths, tokens.shape[1], torch.device("cpu"))
        numbers = present.new_zeros(present.shape, dtype=torch.int64)
        numbers[present] = torch.arange(int(present.sum()))
        rows = self.words(tokens[present.to(tokens.device)])
        return bidirectional_mean(self.gru, rows, numbers, lengths)
