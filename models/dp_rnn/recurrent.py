"""Recurrent visual embedding: an image's objects read in the order of a caption's words.

Chen and Luo 2020 (DP-RNN), eq. 14 and 15. Every pair of an image and a caption has an order of its
own, so the number of sequences is that of the pairs. What does not depend on the order, the
products of objects and input weights, is computed once per image of a pair and gathered for all.
"""

import torch
from torch import nn

from models.attention.bigru import bidirectional_mean

ORDERS = ("attended", "random")
_PRIME = 2_654_435_761  # multiplier of Knuth's multiplicative hash
_WORD = 2**31 - 1  # codes stay below this prime, so that their products fit 64 bits


class RecurrentVisualEmbedding(nn.Module):
    """A bi-GRU over ordered objects, mean of both directions (eq. 15). dim: K, in and out."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gru = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        for name, values in self.gru.named_parameters():
            if name.startswith("bias"):
                nn.init.zeros_(values)
            else:
                for gate in values.chunk(3):
                    nn.init.xavier_uniform_(gate)

    def forward(
        self, objects: torch.Tensor, counts: torch.Tensor, images: torch.Tensor, order: torch.Tensor
    ) -> torch.Tensor:
        """New object features of P pairs, in the order that is given.

        Equal to running nn.GRU over every pair's objects, cut to their count.

        Args:
            objects: (N, R, K).
            counts: (N,) objects per image.
            images: (P,) the image of each pair.
            order: (P, R) object numbers, those that do not exist last.

        Returns:
            (P, R, K), zeros beyond the count.
        """
        lengths = counts[images]
        used, images = images.unique(return_inverse=True)
        if len(used) < len(objects):  # a few pairs of many images: others' products are not needed
            objects = objects[used]
        rows = images[:, None] * objects.shape[1] + order
        return bidirectional_mean(self.gru, objects.flatten(0, 1), rows, lengths)


def attended_order(
    relations: torch.Tensor, counts: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """Objects by the position of their most related word (below eq. 14).

    Args:
        relations: (..., R, T), P(i, j).
        counts: (...) objects that exist.
        lengths: (...) words that exist.

    Returns:
        (..., R) object numbers. Objects that share a word keep their order; those that do not exist
        come last.
    """
    objects, words = relations.shape[-2:]
    beyond = torch.arange(words, device=relations.device) >= lengths[..., None]
    nearest = relations.masked_fill(beyond[..., None, :], -torch.inf).argmax(-1)
    missing = torch.arange(objects, device=relations.device) >= counts[..., None]
    return nearest.masked_fill(missing, words).argsort(dim=-1, stable=True)


def random_order(
    image_codes: torch.Tensor, caption_codes: torch.Tensor, counts: torch.Tensor, objects: int
) -> torch.Tensor:
    """An order that follows from the codes of the pair alone (table 1, random order).

    Args:
        image_codes: (...) int64 of `content_codes`.
        caption_codes: (...) int64 of `content_codes`.
        counts: (...) objects that exist; the others come last.
        objects: R.

    Returns:
        (..., R) object numbers.
    """
    numbers = torch.arange(objects, device=counts.device)
    pairs = _mixed(_mixed(image_codes) + caption_codes)
    keys = _mixed(pairs[..., None] + _mixed(numbers + 1))
    return keys.masked_fill(numbers >= counts[..., None], _WORD).argsort(dim=-1, stable=True)


def content_codes(rows: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """An integer (B,) below 2^31 for each row of (B, L, ...) numbers, cut to its length.

    rows: integers, or float32, whose bits are read; lengths: (B,). Equal content has equal codes
    in every batch: an order drawn from them is the same in training, evaluation and any block.
    """
    bits = rows.contiguous().view(torch.int32) if rows.is_floating_point() else rows
    flat = bits.long().reshape(*rows.shape[:2], -1)
    places = torch.arange(flat[0].numel(), device=rows.device).reshape(flat.shape[1:])
    values = _mixed(flat + 7 * places + 1)
    there = torch.arange(rows.shape[1], device=rows.device) < lengths.to(rows.device)[:, None]
    return _mixed((values.sum(-1) % _WORD * there).sum(-1))


def _mixed(codes: torch.Tensor) -> torch.Tensor:
    """Integers scattered over [0, 2^31 - 1), the same on every machine."""
    codes = codes % _WORD
    codes = codes * _PRIME % _WORD
    return (codes ^ (codes >> 13)) * _PRIME % _WORD
