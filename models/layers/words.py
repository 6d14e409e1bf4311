"""Encoders that turn a sequence of word ids into one vector, or into one vector per word.

Apart from the models that use them, because one text encoder serves several variants.
"""

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

CELLS = {"gru": nn.GRU, "lstm": nn.LSTM}
POOLS = ("last", "mean", "max")


class _RecurrentWords(nn.Module):
    """Word embeddings and a one-layer recurrent network over them: what the encoders below share.

    vocabulary_size: V, row 0 is padding; word_dim: width of a word embedding; hidden: width of
    the state; cell: of CELLS, also the name of the network. Embeddings and gate matrices start from
    Glorot's uniform draw, biases from zero (Sun et al. 2019, section 3.3).
    """

    def __init__(
        self, vocabulary_size: int, word_dim: int, hidden: int, bidirectional: bool, cell: str
    ) -> None:
        super().__init__()
        if cell not in CELLS:
            raise ValueError(f"text encoder {cell!r}: allowed are {', '.join(CELLS)}")
        self.words = nn.Embedding(vocabulary_size, word_dim, padding_idx=0)
        self.cell = cell
        made = CELLS[cell](word_dim, hidden, batch_first=True, bidirectional=bidirectional)
        self.add_module(cell, made)
        self.reset_parameters()

    @property
    def recurrent(self) -> nn.RNNBase:
        """The recurrent network."""
        found = self.get_submodule(self.cell)
        assert isinstance(found, nn.RNNBase)
        return found

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        nn.init.xavier_uniform_(self.words.weight)
        for name, values in self.recurrent.named_parameters():
            if name.startswith("bias"):
                nn.init.zeros_(values)
            else:  # a stacked matrix would count all gates as fan-out
                for gate in values.split(self.recurrent.hidden_size):
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


class RecurrentEncoder(_RecurrentWords):
    """Word embedding, one-layer GRU or LSTM, its states pooled (Sun et al. 2019, section 2.1).

    Args:
        vocabulary_size: V.
        word_dim: width of a word embedding.
        hidden: width of the state, and of the result.
        cell: gru or lstm.
        pool: over a caption's words: last, the state after the last word; mean; or max.

    Raises:
        ValueError: another cell or pool.
    """

    def __init__(
        self,
        vocabulary_size: int,
        word_dim: int,
        hidden: int,
        cell: str = "gru",
        pool: str = "last",
    ) -> None:
        super().__init__(vocabulary_size, word_dim, hidden, bidirectional=False, cell=cell)
        if pool not in POOLS:
            raise ValueError(f"pool {pool!r} of the text encoder: allowed are {', '.join(POOLS)}")
        self.pool = pool

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """One vector per caption.

        tokens: (B, T) word ids, padded at the end; lengths: (B,) numbers of words, at least 1, on
        the CPU. Returns (B, hidden). Packing means that what stands in the padding is never read.
        """
        packed = pack_padded_sequence(tokens, lengths, batch_first=True, enforce_sorted=False)
        states, last = self.recurrent(PackedSequence(self.words(packed.data), *packed[1:]))
        if self.pool == "last":
            final: torch.Tensor = last[0][0] if self.cell == "lstm" else last[0]
            return final
        # what fills the rows behind a caption's end leaves its sum, or its maximum, as it is
        filling = 0.0 if self.pool == "mean" else -torch.inf
        rows, _ = pad_packed_sequence(states, batch_first=True, padding_value=filling)
        if self.pool == "max":
            return rows.amax(1)
        return rows.sum(1) / lengths.to(rows.device)[:, None]
