"""Recurrent visual embedding: an image's objects read in the order of a caption's words.

Chen and Luo 2020 (DP-RNN), eq. 14 and 15. Every pair of an image and a caption has an order of its
own, so the number of sequences is that of the pairs.
"""

import torch
from torch import Tensor, nn

from models.attention.bigru import bidirectional_mean
from models.layers.linear import inside
from models.layers.words import draw_gates

_PRIME = 2_654_435_761  # multiplier of Knuth's multiplicative hash
_WORD = 2**31 - 1  # codes stay below this prime, so that their products fit 64 bits


class RecurrentVisualEmbedding(nn.Module):
    """A bi-GRU over ordered objects, mean of both directions (eq. 15). dim: K, in and out."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gru = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        draw_gates(self.gru)

    def forward(self, objects: Tensor, counts: Tensor, images: Tensor, order: Tensor) -> Tensor:
        """New object features (P, R, K) of P pairs in the given order, zeros beyond the count: as
        of nn.GRU. objects: (N, R, K), of which counts (N,) exist; images: (P,) the image of each
        pair; order: (P, R) object numbers, those that do not exist last."""
        lengths = counts[images]
        used, images = images.unique(return_inverse=True)
        if len(used) < len(objects):  # a few pairs of many images: others' products are not needed
            objects = objects[used]
        rows = images[:, None] * objects.shape[1] + order
        return bidirectional_mean(self.gru, objects.flatten(0, 1), rows, lengths)


def attended_order(relations: Tensor, counts: Tensor, lengths: Tensor) -> Tensor:
    """Object numbers (..., R) by the position of their most related word (below eq. 14), equals in
    their order. relations: (..., R, T), P(i, j), of which counts (...) objects and lengths (...)
    words exist; objects that do not exist come last."""
    objects, words = relations.shape[-2:]
    is_word = inside(lengths, words, relations.device)[..., None, :]
    nearest = relations.masked_fill(~is_word, -torch.inf).argmax(-1)
    missing = ~inside(counts, objects, relations.device)
    return nearest.masked_fill(missing, words).argsort(dim=-1, stable=True)


def random_order(
    image_codes: Tensor, caption_codes: Tensor, counts: Tensor, objects: int
) -> Tensor:
    """An order (..., R) that follows from the codes (...) int64 of the pair alone (table 1, random
    order); counts: (...) objects that exist, the others come last."""
    numbers = torch.arange(objects, device=counts.device)
    pairs = _mixed(_mixed(image_codes) + caption_codes)
    keys = _mixed(pairs[..., None] + _mixed(numbers + 1))
    return keys.masked_fill(numbers >= counts[..., None], _WORD).argsort(dim=-1, stable=True)


def content_codes(rows: Tensor, lengths: Tensor) -> Tensor:
    """An integer (B,) below 2^31 for each row of (B, L, ...) integers, or float32, whose bits are
    read, cut to its length (B,): equal content has equal codes in every batch."""
    bits = rows.contiguous().view(torch.int32) if rows.is_floating_point() else rows
    flat = bits.long().reshape(*rows.shape[:2], -1)
    places = torch.arange(flat[0].numel(), device=rows.device).reshape(flat.shape[1:])
    values = _mixed(flat + 7 * places + 1)
    present = inside(lengths, rows.shape[1], rows.device)
    return _mixed((values.sum(-1) % _WORD * present).sum(-1))


def _mixed(codes: Tensor) -> Tensor:
    """Integers scattered over [0, 2^31 - 1), the same on every machine."""
    codes = codes % _WORD
    codes = codes * _PRIME % _WORD
    return (codes ^ (codes >> 13)) * _PRIME % _WORD
