"""Recurrent visual embedding: an image's objects read in the order of a caption's words (Chen and
Luo 2020, eq. 14 and 15), and the orders themselves.

Every pair of an image and a caption has an order of its own, so the number of sequences is that of
the pairs. The other order, random, must not depend on the batch: it follows from codes of what the
pair holds.
"""

import torch
from torch import Tensor, nn

from models.attention.bigru import bidirectional_mean
from models.layers.linear import length_mask
from models.layers.words import draw_gates

MULTIPLIER = 2_654_435_761  # of Knuth's multiplicative hash
CODES = 2**31 - 1  # codes stay below this prime, so that their products fit 64 bits


class RecurrentVisualEmbedding(nn.Module):
    """A bi-GRU over ordered objects, the mean of both directions (eq. 15); dim: K, in and out."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gru = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        draw_gates(self.gru)

    def forward(self, objects: Tensor, counts: Tensor, images: Tensor, order: Tensor) -> Tensor:
        """Objects of P pairs, read in the order of each pair.

        Args:
            objects: (N, R, K) of N images.
            counts: (N,) how many of the R exist.
            images: (P,) the image of each pair.
            order: (P, R) numbers of objects, those that do not exist last.

        Returns:
            New objects (P, R, K) in the given order, zeros beyond the count.
        """
        lengths = counts[images]
        used, images = images.unique(return_inverse=True)
        if len(used) < len(objects):  # a few pairs of many images: others' products are not needed
            objects = objects[used]
        rows = images[:, None] * objects.shape[1] + order
        return bidirectional_mean(self.gru, objects.flatten(0, 1), rows, lengths)


def attended_order(relations: Tensor, counts: Tensor, lengths: Tensor) -> Tensor:
    """Objects by the position of their most related word (below eq. 14), equals in their order.

    Args:
        relations: (..., R, T) P(i, j) of eq. 14.
        counts: (...) how many of the R objects exist.
        lengths: (...) how many of the T words exist.

    Returns:
        Numbers of objects (..., R); those that do not exist come last.
    """
    objects, words = relations.shape[-2:]
    is_word = length_mask(lengths, words, relations.device)[..., None, :]
    nearest = relations.masked_fill(~is_word, -torch.inf).argmax(-1)
    missing = ~length_mask(counts, objects, relations.device)
    return nearest.masked_fill(missing, words).argsort(dim=-1, stable=True)


def random_order(
    image_codes: Tensor, caption_codes: Tensor, counts: Tensor, objects: int
) -> Tensor:
    """An order that follows from the codes of the pair alone (table 1, random order).

    Args:
        image_codes: (...) int64.
        caption_codes: (...) int64, of a shape that goes with the images'.
        counts: (...) how many objects exist.
        objects: R.

    Returns:
        Numbers of objects (..., R); those that do not exist come last.
    """
    numbers = torch.arange(objects, device=counts.device)
    pairs = _scattered(_scattered(image_codes) + caption_codes)
    keys = _scattered(pairs[..., None] + _scattered(numbers + 1))
    return keys.masked_fill(numbers >= counts[..., None], CODES).argsort(dim=-1, stable=True)


def content_codes(rows: Tensor, lengths: Tensor) -> Tensor:
    """An integer for each row, which its content decides: equal content has equal codes in every
    batch.

    Args:
        rows: (B, L, ...) integers, or float32, whose bits are read.
        lengths: (B,) how much of the L is read.

    Returns:
        (B,) int64 below CODES.
    """
    bits = rows.contiguous().view(torch.int32) if rows.is_floating_point() else rows
    flat = bits.long().reshape(*rows.shape[:2], -1)
    places = torch.arange(flat[0].numel(), device=rows.device).reshape(flat.shape[1:])
    values = _scattered(flat + 7 * places + 1)
    present = length_mask(lengths, rows.shape[1], rows.device)
    return _scattered((values.sum(-1) % CODES * present).sum(-1))


def _scattered(codes: Tensor) -> Tensor:
    """Integers spread over [0, CODES), the same on every machine."""
    codes = codes % CODES
    codes = codes * MULTIPLIER % CODES
    return (codes ^ (codes >> 13)) * MULTIPLIER % CODES
