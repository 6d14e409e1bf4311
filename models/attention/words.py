"""Captions as word states: embedding and bidirectional GRU."""

import torch
from torch import nn

from models.attention.bigru import bidirectional_mean
from models.layers.words import _RecurrentWords


class BiGRUEncoder(_RecurrentWords):
    """Word embedding, one-layer GRU in both directions, their mean at every word.

    Chen and Luo 2020, eq. 1-3; Lee et al. 2018.

    Args:
        vocabulary_size: V.
        word_dim: width of a word embedding.
        hidden: width of a direction's state, and of the result.
    """

    gru: nn.GRU

    def __init__(self, vocabulary_size: int, word_dim: int, hidden: int) -> None:
        super().__init__(vocabulary_size, word_dim, hidden, bidirectional=True, cell="gru")

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """One vector per word, zeros in the padding.

        tokens: (B, T) word ids, padded at the end; lengths: (B,) numbers of words, at least 1, on
        the CPU. Returns (B, T, hidden). What stands in the padding is never read.
        """
        present = torch.arange(tokens.shape[1]) < lengths.cpu()[:, None]
        numbers = present.new_zeros(present.shape, dtype=torch.int64)
        numbers[present] = torch.arange(int(present.sum()))
        rows = self.words(tokens[present.to(tokens.device)])
        return bidirectional_mean(self.gru, rows, numbers, lengths)
