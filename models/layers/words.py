"""Encoders that turn a sequence of word ids into one vector, or into one vector per word."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from models.layers.sets import POOLS

CELLS = {"gru": nn.GRU, "lstm": nn.LSTM}


class _RecurrentWords(nn.Module):
    """Word embeddings and a one-layer recurrent network, from Glorot's uniform draw, biases from
    zero (Sun et al. 2019, section 3.3). vocabulary_size: V, row 0 is padding; cell: of CELLS, also
    the name of the network."""

    def __init__(
        self, vocabulary_size: int, word_dim: int, hidden: int, bidirectional: bool, cell: str
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, word_dim, padding_idx=0)
        self.cell = cell
        kind = CELLS[cell]
        self.add_module(cell, kind(word_dim, hidden, batch_first=True, bidirectional=bidirectional))
        nn.init.xavier_uniform_(self.words.weight)
        draw_gates(self.recurrent)
        with torch.no_grad():
            self.words.weight[0].zero_()

    @property
    def recurrent(self) -> nn.RNNBase:
        network = self.get_submodule(self.cell)
        assert isinstance(network, nn.RNNBase)
        return network


def draw_gates(network: nn.RNNBase) -> None:
    """Zero biases, and Glorot's uniform draw for each gate."""
    for name, values in network.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(values)
        else:
            for gate in values.split(network.hidden_size):
                nn.init.xavier_uniform_(gate)


class RecurrentEncoder(_RecurrentWords):
    """Word embedding, one-layer GRU or LSTM, its states pooled over a caption's words (Sun et al.
    2019, section 2.1).

    Args:
        vocabulary_size: V, row 0 is padding.
        word_dim: width of a word embedding.
        hidden: width of the state, and of the result.
        cell: gru or lstm.
        pool: last, the state after the last word; or of models.layers.sets.POOLS: mean, max, gpo.
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
        self.pool = None if pool == "last" else POOLS[pool]()

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """One vector per caption.

        Args:
            tokens: (B, T) ids of words, padded at the end.
            lengths: (B,) numbers of words, at least 1, on the CPU.

        Returns:
            (B, hidden).
        """
        if torch.compiler.is_exporting():
            return self.forward_padded(tokens, lengths)
        packed = pack_padded_sequence(tokens, lengths, batch_first=True, enforce_sorted=False)
        words = PackedSequence(self.words(packed.data), *packed[1:])
        recurrent = self.recurrent
        on_cpu = tokens.device.type == "cpu"
        if self.training and on_cpu and isinstance(recurrent, nn.GRU):
            states, last = packed_gru(recurrent, words)
        else:
            states, last = recurrent(words)
        final: Tensor = last[0][0] if self.cell == "lstm" else last[0]
        if self.pool is not None:
            final = self.pool(pad_packed_sequence(states, batch_first=True)[0], lengths)
        return final

    def forward_padded(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """One vector per caption, without packed sequences, which cannot be traced.

        The network reads forwards, so that padding changes no state before it.

        Args:
            tokens: (B, T) word ids, padded at the end.
            lengths: (B,) numbers of words, at least 1.

        Returns:
            (B, hidden), equal to those of `forward` but for rounding.
        """
        states, _ = self.recurrent(self.words(tokens))
        if self.pool is not None:
            pooled: Tensor = self.pool(states, lengths)
            return pooled
        last = (lengths - 1)[:, None, None].expand(-1, 1, states.shape[2])
        return states.gather(1, last)[:, 0]


def packed_gru(gru: nn.GRU, inputs: PackedSequence) -> tuple[PackedSequence, Tensor]:
    """What nn.GRU makes of packed sequences, with a cheaper backward on the CPU.

    nn.GRU cuts the projected inputs one step at a time, and the gradient of each cut is as large as
    all of them, nearly all zeros, to be added up. Here they are cut at once. States and gradients
    have the same bits where K is a multiple of 32; else a sigmoid's last bit depends on where its
    numbers lie.

    Args:
        gru: one layer, one direction, with biases; its parameters are used, not its forward.
        inputs: (S, D), packed.

    Returns:
        The states (S, K), packed, and the last of each sequence (1, B, K).
    """
    sizes = inputs.batch_sizes.tolist()
    to_input, to_state, input_bias, state_bias = gru.parameters()
    projected = functional.linear(inputs.data, to_input, input_bias)
    state = projected.new_zeros(sizes[0], gru.hidden_size)
    states: list[Tensor] = []
    ended: list[Tensor] = []
    for step, size in zip(projected.split(sizes), sizes, strict=True):
        if size < len(state):
            ended.append(state[size:])
            state = state[:size]
        recurrent = functional.linear(state, to_state, state_bias)
        input_reset, input_update, input_new = step.chunk(3, 1)
        state_reset, state_update, state_new = recurrent.chunk(3, 1)
        reset = torch.sigmoid(state_reset + input_reset)
        update = torch.sigmoid(state_update + input_update)
        new = torch.tanh(input_new + state_new * reset)
        state = (state - new) * update + new
        states.append(state)
    last = torch.cat([*ended, state][::-1])
    if inputs.unsorted_indices is not None:
        last = last.index_select(0, inputs.unsorted_indices)
    return PackedSequence(torch.cat(states), *inputs[1:]), last[None]
