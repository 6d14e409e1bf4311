"""The bidirectional GRU against nn.GRU, one sequence at a time."""

import pytest
import torch
from torch import nn

from models.attention.bigru import bidirectional_mean

LENGTHS = [[4, 4, 4], [2, 4, 1], [0, 3, 1], [0, 0, 0]]


def case(dtype):
    torch.manual_seed(0)
    gru = nn.GRU(5, 6, batch_first=True, bidirectional=True).to(dtype)
    for values in gru.parameters():
        nn.init.normal_(values)
    rows = torch.randn(7, 5, dtype=dtype, requires_grad=True)
    numbers = torch.tensor([[0, 1, 1, 2], [3, 0, 6, 5], [3, 3, 3, 3]])
    return gru, rows, numbers


def one_by_one(gru, rows, numbers, lengths):
    width, found = numbers.shape[1], []
    for own, length in zip(numbers, lengths, strict=True):
        empty = rows.new_zeros(width - length, gru.hidden_size)
        if length:
            forwards, backwards = gru(rows[own[:length]][None])[0][0].chunk(2, dim=1)
            empty = torch.cat([(forwards + backwards) / 2, empty])
        found.append(empty)
    return torch.stack(found)


@pytest.mark.parametrize("lengths", LENGTHS)
# float32: gradients are sums of some ten numbers near 10, each rounded to 6e-8 of itself
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_equals_nn_gru(lengths, dtype, close):
    """Forwards and backwards, rows read several times or never, sequences without an element."""
    gru, rows, numbers = case(dtype)
    found = bidirectional_mean(gru, rows, numbers, torch.tensor(lengths))
    expected = one_by_one(gru, rows, numbers, lengths)
    torch.testing.assert_close(found, expected, rtol=close, atol=close)
    if not any(lengths):
        return
    upstream = torch.randn_like(found)
    leaves = [rows, *gru.parameters()]
    wanted = torch.autograd.grad((expected * upstream).sum(), leaves)
    for _ in range(2):  # the second time as the first
        ours = torch.autograd.grad((found * upstream).sum(), leaves, retain_graph=True)
        for mine, other in zip(ours, wanted, strict=True):
            torch.testing.assert_close(mine, other, rtol=close, atol=close)


def test_half_precision_is_computed_in_float32():
    gru, rows, numbers = case(torch.float32)
    lengths, half = torch.tensor([2, 4, 1]), rows.detach().bfloat16()
    expected = bidirectional_mean(gru, half.float(), numbers, lengths)
    with torch.autocast("cpu", torch.bfloat16):
        found = bidirectional_mean(gru, half, numbers, lengths)
    assert torch.equal(found, expected)
