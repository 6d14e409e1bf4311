"""The recurrent encoders against single captions, and padding that must not be seen."""

from itertools import product

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from models.attention.encoders import BiGRUEncoder
from models.layers.words import RecurrentEncoder, packed_gru


@pytest.fixture
def captions():
    generator = torch.Generator().manual_seed(1)
    lengths = torch.tensor([3, 7, 1, 5])
    tokens = torch.randint(1, 20, (4, 7), generator=generator)
    tokens[torch.arange(7) >= lengths[:, None]] = 0
    return tokens, lengths


def gru_states(gru, words):
    """The states of one caption by the GRU's equations, one word at a time: (T, hidden)."""
    state, states = torch.zeros(6), []
    for word in words:
        seen = gru.weight_ih_l0 @ word + gru.bias_ih_l0
        kept = gru.weight_hh_l0 @ state + gru.bias_hh_l0
        reset = torch.sigmoid(seen[:6] + kept[:6])
        update = torch.sigmoid(seen[6:12] + kept[6:12])
        new = torch.tanh(seen[12:] + reset * kept[12:])
        state = (1 - update) * new + update * state
        states.append(state)
    return torch.stack(states)


def lstm_states(lstm, words):
    """The same by the LSTM's equations (Hochreiter and Schmidhuber 1997, with a forget gate)."""
    state, cell, states = torch.zeros(6), torch.zeros(6), []
    for word in words:
        gates = lstm.weight_ih_l0 @ word + lstm.bias_ih_l0
        gates = gates + lstm.weight_hh_l0 @ state + lstm.bias_hh_l0
        enters, stays, new, leaves = gates.split(6)
        cell = torch.sigmoid(stays) * cell + torch.sigmoid(enters) * torch.tanh(new)
        state = torch.sigmoid(leaves) * torch.tanh(cell)
        states.append(state)
    return torch.stack(states)


STATES = {"gru": gru_states, "lstm": lstm_states}
POOLED = {"last": lambda s: s[-1], "mean": lambda s: s.mean(0), "max": lambda s: s.amax(0)}
FORMS = list(product(STATES, POOLED))


@pytest.mark.parametrize(("cell", "pool"), FORMS)
def test_equals_a_loop_over_captions_and_words(captions, cell, pool):
    torch.manual_seed(0)
    encoder = RecurrentEncoder(20, 5, 6, cell, pool)
    for values in encoder.recurrent.parameters():  # biases, too
        torch.nn.init.uniform_(values, -1, 1)
    tokens, lengths = captions
    found = encoder(tokens, lengths)
    exported = encoder.forward_padded(tokens, lengths)
    for row, length in enumerate(lengths.tolist()):
        states = STATES[cell](encoder.recurrent, encoder.words.weight[tokens[row, :length]])
        torch.testing.assert_close(found[row], POOLED[pool](states), rtol=0, atol=1e-6)
        torch.testing.assert_close(exported[row], POOLED[pool](states), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("cell", "pool"), [*FORMS, ("both_ways", None)])
def test_padding_is_never_read(captions, both_ways, cell, pool):
    torch.manual_seed(0)
    encoder = RecurrentEncoder(20, 5, 6, cell, pool) if pool else both_ways
    tokens, lengths = captions
    plain = encoder(tokens, lengths)
    garbage = tokens.clone()
    garbage[tokens == 0] = 13
    wider = torch.nn.functional.pad(garbage, (0, 9), value=4)
    found = encoder(wider, lengths)
    if not pool:  # a vector per word
        assert not found[:, 7:].any()
        found = found[:, :7]
    assert torch.equal(found, plain)
    found.sum().backward()
    assert all(values.grad.isfinite().all() for values in encoder.parameters())
    used = set(tokens[tokens > 0].tolist())
    assert set(encoder.words.weight.grad.any(dim=1).nonzero().flatten().tolist()) <= used


@pytest.mark.parametrize(("cell", "gates"), [("gru", 3), ("lstm", 4), ("both_ways", 3)])
def test_starts_from_glorots_draw(cell, gates):
    """Uniform in +-sqrt(6 / (fan in + fan out)), each gate for itself, and zero biases."""
    torch.manual_seed(0)
    both = cell == "both_ways"
    encoder = BiGRUEncoder(500, 40, 60) if both else RecurrentEncoder(500, 40, 60, cell)
    for name, values in encoder.recurrent.named_parameters():
        if name.startswith("bias"):
            assert not values.any()
        else:
            limit = (6 / (60 + values.shape[1])) ** 0.5
            for gate in values.chunk(gates):
                assert gate.abs().max().item() == pytest.approx(limit, rel=0.02)
    assert encoder.words.weight.abs().max().item() == pytest.approx((6 / 540) ** 0.5, rel=0.02)
    assert not encoder.words.weight[0].any()


@pytest.fixture
def both_ways():
    torch.manual_seed(0)
    return BiGRUEncoder(vocabulary_size=20, word_dim=5, hidden=6)


def test_words_are_the_mean_of_both_directions(both_ways, captions):
    """Chen and Luo 2020, eq. 1-3: one caption at a time through two one-way GRUs."""
    tokens, lengths = captions
    forwards, backwards = torch.nn.GRU(5, 6), torch.nn.GRU(5, 6)
    states = both_ways.gru.state_dict()
    forwards.load_state_dict({name: states[name] for name in forwards.state_dict()})
    backwards.load_state_dict({name: states[f"{name}_reverse"] for name in backwards.state_dict()})
    found = both_ways(tokens, lengths)
    assert found.shape == (4, 7, 6)
    for row, length in enumerate(lengths.tolist()):
        words = both_ways.words.weight[tokens[row, :length]]
        there, back = forwards(words)[0], backwards(words.flip(0))[0].flip(0)
        torch.testing.assert_close(found[row, :length], (there + back) / 2, rtol=0, atol=1e-6)
        assert not found[row, length:].any()


@pytest.mark.parametrize("lengths", [[5, 1, 9, 9, 3], [2], [4, 4]])
def test_a_gru_in_training_gives_the_bits_of_torchs_own(lengths):
    torch.manual_seed(0)
    encoder = RecurrentEncoder(20, 6, 32)
    for bias in (encoder.gru.bias_ih_l0, encoder.gru.bias_hh_l0):
        torch.nn.init.normal_(bias)
    tokens = torch.randint(1, 20, (len(lengths), max(lengths)))
    packed = pack_padded_sequence(tokens, torch.tensor(lengths), True, enforce_sorted=False)
    found = []
    for run in (packed_gru, torch.nn.Module.__call__):
        encoder.zero_grad()
        states, last = run(encoder.gru, PackedSequence(encoder.words(packed.data), *packed[1:]))
        (states.data.square().sum() + last.sin().sum()).backward()
        gradients = [weight.grad.clone() for weight in encoder.parameters()]
        found.append([states.data.detach(), last.detach(), *gradients])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*found, strict=True))
