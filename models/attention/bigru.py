"""A bidirectional GRU over sequences of different lengths, quick where the sequences are short.

nn.GRU makes one product per step and direction for the gradient of its weights and keeps every
small tensor between. Here a step holds only the sequences that have not ended, and the backward
pass computes the gradient of the weights for all steps at once.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from models.layers.linear import at_least_float32

GATHERED = 512  # rows gathered at once


def bidirectional_mean(gru: nn.GRU, rows: Tensor, numbers: Tensor, lengths: Tensor) -> Tensor:
    """Mean of both directions' states at every position. Gradients of first order only.

    Args:
        gru: one layer, bidirectional, with biases; its parameters are used, not its forward.
        rows: (N, D), what can be read.
        numbers: (P, L) the row that is read at each position, not looked at beyond the lengths.
        lengths: (P,) positions that exist.

    Returns:
        (P, L, K), at least float32, zeros beyond the lengths.
    """
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    both = [(getattr(gru, f"{n}_l0"), getattr(gru, f"{n}_l0_reverse")) for n in names]
    places, sizes = _steps(lengths.cpu(), numbers.shape[1])
    places = places.to(rows.device)
    with torch.autocast(rows.device.type, enabled=False):
        inputs, recurrent, input_bias, bias = (torch.stack(pair) for pair in both)
        rows = at_least_float32(rows)
        width = gru.hidden_size
        # the new gate before the others: theirs and the recurrent new one then lie side by side
        added = torch.cat([bias[:, : 2 * width], torch.zeros_like(bias[:, 2 * width :])], 1)
        inputs = inputs.roll(width, 1)
        input_bias = (input_bias + added).roll(width, 1)
        projected = torch.baddbmm(input_bias[:, None], rows.expand(2, -1, -1), inputs.mT)
        sources = numbers.to(rows.device).flatten()[places]
        new_bias = bias[:, 2 * width :]
        return _BiGRU.apply(projected, recurrent, new_bias, sources, places, sizes, numbers.shape)


def _steps(lengths: Tensor, width: int) -> tuple[Tensor, list[int]]:
    """Which of the flat (P, L) positions are read step after step, forwards and backwards (2, S),
    and how many sequences have not ended at each step, S in all; lengths: (P,) on the CPU."""
    sorted_lengths, order = lengths.sort(descending=True, stable=True)
    running = torch.arange(width)[:, None] < sorted_lengths
    step, rank = running.nonzero(as_tuple=True)
    first = order[rank] * width
    places = torch.stack([first + step, first + sorted_lengths[rank] - 1 - step])
    return places, [size for size in running.sum(1).tolist() if size]


class _BiGRU(torch.autograd.Function):
    """From projected rows (2, N, 3 K), gates new, reset, update, to mean states (P, L, K). weight:
    (2, 3 K, K), gates reset, update, new; bias: (2, K) of the new gate's share of the state;
    sources: (2, S) rows of each direction's steps; places: (2, S), sizes: of `_steps`; shape: (P,
    L)."""

    @staticmethod
    def forward(
        ctx: Any,
        projected: Tensor,
        weight: Tensor,
        bias: Tensor,
        sources: Tensor,
        places: Tensor,
        sizes: list[int],
        shape: tuple[int, int],
    ) -> Tensor:
        width = weight.shape[2]
        count = places.shape[1]
        gates = projected.new_empty(2, count, 4 * width)  # new, reset, update, recurrent new
        _gather(gates, projected, bias, sources)
        states = projected.new_zeros(2, count + 1, width)  # the last one stands in the padding
        _run(gates, states[:, :-1], weight, sizes)
        ctx.save_for_backward(gates, states, weight, sources, places)
        ctx.sizes = sizes
        ctx.rows = projected.shape[1]
        forwards, backwards = _inverse(places, shape[0] * shape[1])
        mean = states[0].index_select(0, forwards)
        mean.add_(states[1].index_select(0, backwards)).mul_(0.5)
        return mean.view(shape[0], shape[1], width)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gates, states, weight, sources, places = ctx.saved_tensors
        width = weight.shape[2]
        states = states[:, :-1]
        arriving = (gradients[0] * 0.5).reshape(-1, width).index_select(0, places.flatten())
        earlier = _earlier(states, ctx.sizes)
        changes = _derivatives(gates, earlier)
        _run_back(changes, arriving.view_as(states), gates, weight, ctx.sizes)
        hidden = changes[..., width:]
        later = slice(ctx.sizes[0] if ctx.sizes else 0, None)  # not the first: no state is before
        to_weight = torch.bmm(hidden[:, later].mT, earlier[:, later])
        to_projected = _row_sums(changes, sources, ctx.rows)[..., : 3 * width]
        return to_projected, to_weight, hidden[..., 2 * width :].sum(1), None, None, None, None


def _gather(gates: Tensor, projected: Tensor, bias: Tensor, sources: Tensor) -> None:
    """Write into the gates (2, S, 4 K) what does not depend on the states."""
    width = projected.shape[2] // 3
    for target, rows, numbers, offset in zip(gates, projected, sources, bias, strict=True):
        for start in range(0, len(numbers), GATHERED):  # parts that stay in a CPU's cache
            part = slice(start, start + GATHERED)
            target[part, : 3 * width] = rows.index_select(0, numbers[part])
        target[:, 3 * width :] = offset


def _inverse(places: Tensor, count: int) -> Tensor:
    """(2, count): which of the S steps of each direction is at each place, S where none is."""
    result = places.new_full((2, count), places.shape[1])
    steps = torch.arange(places.shape[1], device=places.device)
    return result.scatter_(1, places, steps.expand(2, -1))


def _run(gates: Tensor, states: Tensor, weight: Tensor, sizes: list[int]) -> None:
    """Fill the states and finish the gates, step by step."""
    width = weight.shape[2]
    before: Tensor | None = None
    for gate, state in zip(gates.split(sizes, 1), states.split(sizes, 1), strict=True):
        if before is not None:
            before = before[:, : gate.shape[1]]
            gate[..., width:].baddbmm_(before, weight.mT)
        new, reset, update, hidden = gate.chunk(4, dim=-1)
        gate[..., width : 3 * width].sigmoid_()
        # tanh, by the sigmoid, which PyTorch computes several times faster on a CPU
        new.addcmul_(reset, hidden).mul_(2).sigmoid_().mul_(2).sub_(1)
        if before is None:
            torch.addcmul(new, new, update, value=-1, out=state)
        else:
            torch.lerp(new, before, update, out=state)
        before = state


def _earlier(states: Tensor, sizes: list[int]) -> Tensor:
    """The state before each of the states (2, S, K)."""
    parts = states.split(sizes, 1)[:-1]
    kept = [part[:, :size] for part, size in zip(parts, sizes[1:], strict=True)]
    return torch.cat([states.new_zeros(2, sizes[0] if sizes else 0, states.shape[2]), *kept], 1)


def _derivatives(gates: Tensor, earlier: Tensor) -> Tensor:
    """Derivatives of a state by what enters its gates, (2, S, 4 K) as the gates."""
    result = torch.empty_like(gates)
    new, reset, update, hidden = gates.chunk(4, dim=-1)
    to_new, to_reset, to_update, to_hidden = result.chunk(4, dim=-1)
    torch.addcmul(new.new_ones(()), new, new, value=-1, out=to_new)
    to_new.addcmul_(to_new, update, value=-1)
    torch.mul(to_new, reset, out=to_hidden)
    torch.mul(to_hidden, hidden, out=to_reset)
    to_reset.addcmul_(to_reset, reset, value=-1)
    torch.sub(earlier, new, out=to_update)
    to_update.mul_(update)
    to_update.addcmul_(to_update, update, value=-1)
    return result


def _run_back(
    changes: Tensor, arriving: Tensor, gates: Tensor, weight: Tensor, sizes: list[int]
) -> None:
    """Turn derivatives into gradients, in place, from the last step to the first. changes, gates:
    (2, S, 4 K); arriving: (2, S, K), the gradient from outside; overwritten."""
    width = weight.shape[2]
    carried: Tensor | None = None
    stop = changes.shape[1]
    for size in reversed(sizes):
        start = stop - size
        change = changes[:, start:stop]
        state = arriving[:, start:stop]
        gate = gates[:, start:stop]
        stop = start
        if carried is not None:
            state[:, : carried.shape[1]] += carried
        change.unflatten(2, (4, width)).mul_(state[:, :, None])
        if start:
            carried = state.mul_(gate[..., 2 * width : 3 * width])
            carried.baddbmm_(change[..., width:], weight)


def _row_sums(changes: Tensor, sources: Tensor, count: int) -> Tensor:
    """Sums (2, count, W) of the changes (2, S, W) that came from the same source (2, S). By
    sorting: adding row by row, as index_add does, is many times slower on a CPU."""
    keys = sources + count * torch.arange(2, device=sources.device)[:, None]
    ends = torch.bincount(keys.flatten(), minlength=2 * count).cumsum(0)
    starts = torch.cat([ends.new_zeros(1), ends[:-1]])
    order = keys.flatten().argsort(stable=True)
    rows = changes.flatten(0, 1)
    sums = nn.functional.embedding_bag(order, rows, starts, mode="sum")
    return sums.view(2, count, -1)
