"""Encoders that turn a sequence of word ids into one vector.

Apart from the models that use them, because one text encoder serves several variants.
"""

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence


class GRUEncoder(nn.Module):
    """Word embedding, one-layer GRU, state after the last word (Sun et al. 2019, section 2.1).

    vocabulary_size: V, row 0 is padding; word_dim: width of a word embedding; hidden: width of
    the state. Embeddings and gate matrices start from Glorot's uniform draw, biases from zero
    (section 3.3).
    """

    def __init__(self, vocabulary_size: int, word_dim: int, hidden: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, word_dim, padding_idx=0)
        self.gru = nn.GRU(word_dim, hidden, batch_first=True)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        nn.init.xavier_uniform_(self.words.weight)
        for name, values in self.gru.named_parameters():
            if name.startswith("bias"):
                nn.init.zeros_(values)
            else:
                for gate in values.chunk(3):  # a stacked matrix would count three gates as fan-out
                    nn.init.xavier_uniform_(gate)
        with torch.no_grad():
            self.words.weight[0].zero_()

    def initialise_words(self, matrix: torch.Tensor) -> None:
        """Start the word embeddings from `matrix` (V, word_dim), whose row 0 is taken as zero.

        Raises ValueError when the shape is another.
        """
        if matrix.shape != self.words.weight.shape:
            raise ValueError(
                f"word vectors of shape {tuple(matrix.shape)} do not fit embeddings of shape "
                f"{tuple(self.words.weight.shape)}"
            )
        with torch.no_grad():
            self.words.weight.copy_(matrix)
            self.words.weight[0].zero_()

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """States after the last words.

        tokens: (B, T) word ids, padded at the end; lengths: (B,) numbers of words, at least 1, on
        the CPU. Returns (B, hidden). What stands in the padding is never read.
        """
        packed = pack_padded_sequence(tokens, lengths, batch_first=True, enforce_sorted=False)
        embedded = PackedSequence(self.words(packed.data), *packed[1:])
        _, last = self.gru(embedded)
        return last[0]
