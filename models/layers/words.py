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
    """Word embedding, one-layer GRU or LSTM (cell), its states pooled over a caption's words (Sun
    et al. 2019, section 2.1): last, the state after the last word; or of models.layers.sets.POOLS:
    mean, max or gpo."""

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
        """Word ids (B, T), padded at the end, to one vector per caption (B, hidden); lengths: (B,)
        numbers of words, at least 1, on the CPU."""
        if torch.compiler.is_exporting():
            return self.forward_padded(tokens, lengths)
        packed = pack_padded_sequence(tokens, lengths, batch_first=True, enforce_sorted=False)
        words = PackedSequence(self.words(packed.data), *packed[1:])
        recurrent, on_cpu = self.recurrent, tokens.device.type == "cpu"
        if self.training and on_cpu and isinstance(recurrent, nn.GRU):
            states, last = packed_gru(recurrent, words)
        else:
            states, last = recurrent(words)
        final: Tensor = last[0][0] if self.cell == "lstm" else last[0]
        if self.pool is not None:
            final = self.pool(pad_packed_sequence(states, batch_first=True)[0], lengths)
        return final

    def forward_padded(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """The same vectors (B, hidden) without packed sequences, which cannot be traced.

        The network reads forwards, so that padding changes no state before it.

        Args:
            tokens: (B, T) word ids, padded at the end.
            lengths: (B,) numbers of words, at least 1.
        """
        states, _ = self.recurrent(self.words(tokens))
        if self.pool is not None:
            pooled: Tensor = self.pool(states, lengths)
            return pooled
        last = (lengths - 1)[:, None, None].expand(-1, 1, states.shape[2])
        return states.gather(1, last)[:, 0]


def packed_gru(gru: nn.GRU, inputs: PackedSequence) -> tuple[PackedSequence, Tensor]:
    """States (S, K), packed, and the last of each sequence (1, B, K) of a GRU over packed sequences
    (S, D), with a cheaper backward on the CPU; the GRU has one layer, one direction and biases.

    States and gradients have the same bits where K is a multiple of 32; else a sigmoid's last bit
    depends on where its numbers lie.
    """
    sizes = inputs.batch_sizes.tolist()
    to_input, to_state, input_bias, state_bias = gru.parameters()
    projected = functional.linear(inputs.data, to_input, input_bias)
    state = projected.new_zeros(sizes[0], gru.hidden_size)
    states, ended = list[Tensor](), list[Tensor]()
    for step, size in zip(projected.split(sizes), sizes, strict=True):
        if size < len(state):
            ended.append(state[size:])
            state = state[:size]
        recurrent = functional.linear(state, to_state, state_bias)
        of_input, of_state = step.chunk(3, 1), recurrent.chunk(3, 1)
        reset, update = (torch.sigmoid(of_state[gate] + of_input[gate]) for gate in (0, 1))
        new = torch.tanh(of_input[2] + of_state[2] * reset)
        state = (state - new) * update + new
        states.append(state)
    last = torch.cat([*ended, state][::-1])
    if inputs.unsorted_indices is not None:
        last = last.index_select(0, inputs.unsorted_indices)
    return PackedSequence(torch.cat(states), *inputs[1:]), last[None]
