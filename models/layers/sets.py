"""Poolings of sets of vectors: mean, max, and the generalised pooling operator (GPO).

The first two are a line each. GPO weighs the values of every dimension in descending order; its
sorting is written for the CPU here (`_SortedSum`), as torch.sort takes many times longer.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from models.layers.linear import at_least_float32, length_mask

TEMPERATURE = 0.1  # of the softmax over positions, in the authors' code
PERIOD = 10_000.0  # longest wavelength of an encoding, over 2 pi
LAST = torch.finfo(torch.float32).max  # behind all that exists
PART = 1 << 17  # values that are sorted at once
SPARE = (1 << 29) - 1  # the last bits of a float64, zero where it was a float32


class MeanPool(nn.Module):
    """The mean of the items that exist, zeros of none."""

    def forward(self, items: Tensor, counts: Tensor) -> Tensor:
        """The mean of each set.

        Args:
            items: (B, R, K) sets of vectors, padded at the end.
            counts: (B,) items that exist.

        Returns:
            (B, K), at least float32; zeros of an empty set.
        """
        present = length_mask(counts, items.shape[1], items.device)
        total = at_least_float32(items).masked_fill(~present[..., None], 0.0).sum(1)
        return total / present.sum(1, keepdim=True).clamp_min(1)


class MaxPool(nn.Module):
    """The maximum of the items that exist in every dimension, zeros of none."""

    def forward(self, items: Tensor, counts: Tensor) -> Tensor:
        """The maximum of each set in every dimension.

        Args:
            items: (B, R, K) sets of vectors, padded at the end.
            counts: (B,) items that exist.

        Returns:
            (B, K), at least float32; zeros of an empty set.
        """
        present = length_mask(counts, items.shape[1], items.device)[..., None]
        largest = at_least_float32(items).masked_fill(~present, -torch.inf).amax(1)
        return largest.masked_fill(~present.any(1), 0.0)


class GPO(nn.Module):
    """The generalised pooling operator (Chen et al. 2021, section 3): the values of every dimension
    in descending order, weighted by theta. A bidirectional GRU, its directions averaged, makes
    theta from sinusoidal encodings of the positions, so that it depends on the number of items
    alone.

    Args:
        encoding: width of a position's encoding, even; 32 as in the paper.
        hidden: width of the GRU's state; 32 as in the paper.
    """

    def __init__(self, encoding: int = 32, hidden: int = 32) -> None:
        super().__init__()
        self.gru = nn.GRU(encoding, hidden, batch_first=True, bidirectional=True)
        self.score = nn.Linear(hidden, 1, bias=False)

    def theta(self, counts: Tensor, width: int) -> Tensor:
        """Weights of the positions, which sum to 1 over the items that exist, and are 0 beyond.

        Args:
            counts: (B,) items of each set.
            width: R, positions that the sets are padded to.

        Returns:
            (B, R).
        """
        counts = counts.cpu()  # where packing needs them
        distinct, which = counts.unique(return_inverse=True)
        first = next(self.parameters())
        codes = positions(width, self.gru.input_size).to(first).expand(len(distinct), -1, -1)
        lengths = distinct.clamp_min(1)
        packed = pack_padded_sequence(codes, lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=width)
        scores = self.score(sum(states.chunk(2, 2)) / 2)[..., 0] / TEMPERATURE
        weights = scores.masked_fill(
            ~length_mask(lengths, width, first.device), -torch.inf
        ).softmax(1)
        weights = weights.where(length_mask(distinct, width, first.device), 0.0)
        return weights[which.to(first.device)]

    def forward(self, items: Tensor, counts: Tensor) -> Tensor:
        """The weighted sum of each set's sorted values.

        Args:
            items: (B, R, K) sets of vectors, padded at the end.
            counts: (B,) items that exist.

        Returns:
            (B, K), at least float32; zeros of an empty set.
        """
        with torch.autocast(items.device.type, enabled=False):
            return sorted_sum(
                at_least_float32(items), self.theta(counts, items.shape[1]), counts.cpu()
            )


POOLS: dict[str, type[nn.Module]] = {"mean": MeanPool, "max": MaxPool, "gpo": GPO}


def positions(count: int, width: int) -> Tensor:
    """Sinusoidal encodings of the positions from 0 (Vaswani et al. 2017, section 3.5).

    Args:
        count: number of positions.
        width: of an encoding, even.

    Returns:
        (count, width).
    """
    rates = PERIOD ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(count)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)


def sorted_sum(items: Tensor, weights: Tensor, counts: Tensor) -> Tensor:
    """Of every dimension the sum over k of weight k times the k-th largest value.

    Args:
        items: (B, R, K), padded at the end.
        weights: (B, R), 0 beyond the items that exist.
        counts: (B,) items that exist, on the CPU.

    Returns:
        (B, K).
    """
    if items.device.type == "cpu" and items.dtype == torch.float32:
        return _SortedSum.apply(items, weights, counts)
    present = length_mask(counts, items.shape[1], items.device)[..., None]
    ordered = items.masked_fill(~present, -torch.inf).sort(1, descending=True).values
    return (ordered.where(present, 0.0) * weights[..., None]).sum(1)


class _SortedSum(torch.autograd.Function):
    """sorted_sum of float32 on the CPU, many times as fast there as through torch.sort. NumPy sorts
    numbers by vector instructions, but not what belongs to them: so each value carries the number
    of its item, in bits that it leaves free as a float64."""

    @staticmethod
    def forward(ctx: Any, items: Tensor, weights: Tensor, counts: Tensor) -> Tensor:
        sets, width, dim = items.shape
        ordered = items.new_empty(sets, dim, width)
        order = torch.empty(sets, dim, width, dtype=torch.int16)
        padding = ~length_mask(counts, width, items.device)[:, None]
        numbers = torch.arange(width)
        size = _part(items)
        for start in range(0, sets, size):  # parts that stay in a CPU's cache
            part = slice(start, start + size)
            outside = padding[part]
            # ascending order of -x is descending order of x
            keys = items[part].mT.contiguous().neg_().masked_fill_(outside, LAST).double()
            bits = keys.view(torch.int64).bitwise_or_(numbers)
            keys.numpy().sort(2)
            # NaN is sorted behind the padding: 0 times NaN keeps it
            ordered[part].copy_(keys).neg_().mul_(~outside)
            order[part].copy_(bits.bitwise_and_(SPARE))
        ctx.save_for_backward(ordered, order, weights)
        return torch.bmm(ordered, weights[:, :, None])[..., 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        ordered, order, weights = ctx.saved_tensors
        to_weights = torch.bmm(gradients[0][:, None], ordered)[:, 0]
        to_items = ordered.new_empty(ordered.mT.shape)
        size = _part(ordered)
        for start in range(0, len(ordered), size):
            part = slice(start, start + size)
            shares = gradients[0][part, :, None] * weights[part, None]
            scattered = torch.empty_like(shares).scatter_(2, order[part].long(), shares)
            to_items[part] = scattered.mT
        return to_items, to_weights, None


def _part(items: Tensor) -> int:
    """How many sets are sorted at once."""
    return max(1, PART * len(items) // max(items.numel(), 1))
