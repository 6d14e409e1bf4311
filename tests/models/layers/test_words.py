"""The GRU encoder against single captions, and padding that must not be seen."""

import pytest
import torch

from models.attention.words import BiGRUEncoder
from models.layers.words import GRUEncoder


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return GRUEncoder(vocabulary_size=20, word_dim=5, hidden=6)


@pytest.fixture
def captions():
    generator = torch.Generator().manual_seed(1)
    lengths = torch.tensor([3, 7, 1, 5])
    tokens = torch.randint(1, 20, (4, 7), generator=generator)
    tokens[torch.arange(7) >= lengths[:, None]] = 0
    return tokens, lengths


def test_equals_a_step_by_step_gru(encoder, captions):
    """The last state by the GRU's equations, one caption and one word at a time."""
    tokens, lengths = captions
    gru = encoder.gru
    for row, length in enumerate(lengths.tolist()):
        state = torch.zeros(6)
        for word in tokens[row, :length]:
            seen = gru.weight_ih_l0 @ encoder.words.weight[word] + gru.bias_ih_l0
            kept = gru.weight_hh_l0 @ state + gru.bias_hh_l0
            reset = torch.sigmoid(seen[:6] + kept[:6])
            update = torch.sigmoid(seen[6:12] + kept[6:12])
            new = torch.tanh(seen[12:] + reset * kept[12:])
            state = (1 - update) * new + update * state
        torch.testing.assert_close(encoder(tokens, lengths)[row], state, rtol=0, atol=1e-6)


def test_equals_the_padded_form(encoder, captions):
    """Running over the padding too and picking the state at the true length gives the same."""
    tokens, lengths = captions
    states, _ = encoder.gru(encoder.words(tokens))
    picked = states[torch.arange(4), lengths - 1]
    torch.testing.assert_close(encoder(tokens, lengths), picked, rtol=0, atol=1e-6)


def test_padding_is_never_read(encoder, captions):
    tokens, lengths = captions
    plain = encoder(tokens, lengths)
    garbage = tokens.clone()
    garbage[tokens == 0] = 13
    wider = torch.nn.functional.pad(garbage, (0, 9), value=4)
    assert torch.equal(encoder(wider, lengths), plain)
    encoder(wider, lengths).sum().backward()
    used = set(tokens[tokens > 0].tolist())
    assert set(encoder.words.weight.grad.any(dim=1).nonzero().flatten().tolist()) <= used


def test_starts_from_glorots_draw():
    """Uniform in +-sqrt(6 / (fan in + fan out)), each gate for itself, and zero biases."""
    torch.manual_seed(0)
    encoder = GRUEncoder(vocabulary_size=500, word_dim=40, hidden=60)
    for gate in encoder.gru.weight_ih_l0.chunk(3):
        assert gate.abs().max().item() == pytest.approx((6 / 100) ** 0.5, rel=0.02)
    for gate in encoder.gru.weight_hh_l0.chunk(3):
        assert gate.abs().max().item() == pytest.approx((6 / 120) ** 0.5, rel=0.02)
    assert encoder.words.weight.abs().max().item() == pytest.approx((6 / 540) ** 0.5, rel=0.02)
    assert not encoder.gru.bias_ih_l0.any()
    assert not encoder.gru.bias_hh_l0.any()
    assert not encoder.words.weight[0].any()


def test_words_from_a_matrix(encoder):
    matrix = torch.rand(20, 5)
    encoder.initialise_words(matrix)
    assert torch.equal(encoder.words.weight[1:], matrix[1:])
    assert not encoder.words.weight[0].any()
    with pytest.raises(ValueError, match=r"\(20, 4\).*\(20, 5\)"):
        encoder.initialise_words(torch.rand(20, 4))


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


def test_padding_is_never_read_in_either_direction(both_ways, captions):
    tokens, lengths = captions
    plain = both_ways(tokens, lengths)
    garbage = tokens.clone()
    garbage[tokens == 0] = 13
    wider = torch.nn.functional.pad(garbage, (0, 9), value=4)
    found = both_ways(wider, lengths)
    assert torch.equal(found[:, :7], plain)
    assert found.shape == (4, 16, 6)
    assert not found[:, 7:].any()
    found.sum().backward()
    used = set(tokens[tokens > 0].tolist())
    assert set(both_ways.words.weight.grad.any(dim=1).nonzero().flatten().tolist()) <= used


def test_both_directions_start_from_glorots_draw():
    torch.manual_seed(0)
    encoder = BiGRUEncoder(vocabulary_size=500, word_dim=40, hidden=60)
    for ending in ("", "_reverse"):
        for gate in getattr(encoder.gru, f"weight_ih_l0{ending}").chunk(3):
            assert gate.abs().max().item() == pytest.approx((6 / 100) ** 0.5, rel=0.02)
        assert not getattr(encoder.gru, f"bias_hh_l0{ending}").any()
