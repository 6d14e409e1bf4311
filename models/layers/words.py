"""Encoders that turn a sequence of word ids into one vector, or into one vector per word.

Apart from the models that use them, because one text encoder serves several variants.
"""

import torch
from torch import nn
from torch.nn import functional
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
        words = PackedSequence(self.words(packed.data), *packed[1:])
        recurrent, on_cpu = self.recurrent, tokens.device.type == "cpu"
        if self.training and on_cpu and isinstance(recurrent, nn.GRU):
            states, last = packed_gru(recurrent, words)
        else:
            states, last = recurrent(words)
        if self.pool == "last":
            final: torch.Tensor = last[0][0] if self.cell == "lstm" else last[0]
            return final
        # what fills the rows behind a caption's end leaves its sum, or its maximum, as it is
        filling = 0.0 if self.pool == "mean" else -torch.inf
        rows, _ = pad_packed_sequence(states, batch_first=True, padding_value=filling)
        if self.pool == "max":
            return rows.amax(1)
        return rows.sum(1) / lengths.to(rows.device)[:, None]


def packed_gru(gru: nn.GRU, inputs: PackedSequence) -> tuple[PackedSequence, torch.Tensor]:
    """What a GRU makes of packed sequences, with a cheaper backward on the CPU.

    nn.GRU cuts the projected inputs of all steps one step at a time, and the gradient of each cut
    is as large as all of them, nearly all zeros, to be added up. Here they are cut at once.
    States and gradients have the same bits where K is a multiple of 32; else a sigmoid's last bit
    depends on where its numbers lie.

    Args:
        gru: one layer, one direction, with biases; its parameters are used, not its forward.
        inputs: (S, D) of all steps.

    Returns:
        As nn.GRU: the states (S, K), packed, and the last of each sequence (1, B, K).
    """
    sizes = inputs.batch_sizes.tolist()
    to_input, to_state, input_bias, state_bias = gru.parameters()
    projected = functional.linear(inputs.data, to_input, input_bias)
    state = projected.new_zeros(sizes[0], gru.hidden_size)
    states, ended = list[torch.Tensor](), list[torch.Tensor]()
    for step, size in zip(projected.split(sizes), sizes, strict=True):
        if size < len(state):
            ended.append(state[size:])
            state = state[:size]
        recurrent = functional.linear(state, to_state, state_bias)
        own, other = step.chunk(3, 1), recurrent.chunk(3, 1)
        reset, update = (torch.sigmoid(other[gate] + own[gate]) for gate in (0, 1))
        new = torch.tanh(own[2] + other[2] * reset)
        state = (state - new) * update + new
        states.append(state)
    last = torch.cat([*ended, state][::-1])
    if inputs.unsorted_indices is not None:
        last = last.index_select(0, inputs.unsorted_indices)
    return PackedSequence(torch.cat(states), *inputs[1:]), last[None]
