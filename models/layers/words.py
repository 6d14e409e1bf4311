"""Encoders that turn a sequence of word ids into one vector, or into one vector per word.

Apart from the models that use them, because one text encoder serves several variants.
"""

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence


class _WordGRU(nn.Module):
    """Word embeddings and a one-layer GRU over them: what the encoders below share.

    vocabulary_size: V, row 0 is padding; word_dim: width of a word embedding; hidden: width of
    the state. Embeddings and gate matrices start from Glorot's uniform draw, biases from zero
    (Sun et al. 2019, section 3.3).
    """

    def __init__(
        self, vocabulary_size: int, word_dim: int, hidden: int, bidirectional: bool
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, word_dim, padding_idx=0)
        self.gru = nn.GRU(word_dim, hidden, batch_first=True, bidirectional=bidirectional)
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

    def states(
        self, tokens: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[PackedSequence, torch.Tensor]:
        """All states, packed, and the last ones (directions, B, hidden).

        Packing means that what stands in the padding is never read.
        """
        packed = pack_padded_sequence(tokens, lengths, batch_first=True, enforce_sorted=False)
        return self.gru(PackedSequence(self.words(packed.data), *packed[1:]))


class GRUEncoder(_WordGRU):
    """Word embedding, one-layer GRU, state after the last word (Sun et al. 2019, section 2.1).

    Args:
        vocabulary_size: V.
        word_dim: width of a word embedding.
        hidden: width of the state, and of the result.
    """

    def __init__(self, vocabulary_size: int, word_dim: int, hidden: int) -> None:
        super().__init__(vocabulary_size, word_dim, hidden, bidirectional=False)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """States after the last words.

        tokens: (B, T) word ids, padded at the end; lengths: (B,) numbers of words, at least 1, on
        the CPU. Returns (B, hidden). What stands in the padding is never read.
        """
        _, last = self.states(tokens, lengths)
        return last[0]
