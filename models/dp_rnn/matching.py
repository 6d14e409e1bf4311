"""Multi-attention cross matching: cosines with attended vectors, averaged by self-attention.

Chen and Luo 2020 (DP-RNN), eq. 4 to 12. The all-pairs form rests on the Gram form of
models.attention.cosines; so does that for chosen pairs, whose objects belong to one pair each: its
Gram matrices are still smaller than the attended vectors.
"""

import torch
from torch import nn

from models.attention.cosines import SMALLEST_NORM, attended_cosines, gram_cosines, without_padding

ORIENTATIONS = ("word", "object")


def padding(lengths: torch.Tensor, width: int, device: torch.device) -> torch.Tensor:
    """Which places are padding.

    Args:
        lengths: (...) places that exist.
        width: number of places.
        device: of the result.

    Returns:
        (..., width) bool, True beyond the lengths.
    """
    return torch.arange(width, device=device) >= lengths.to(device)[..., None]


class SelfAttention(nn.Module):
    """Weights of the words of a caption or of the objects of an image (eq. 10, 11).

    dim: K; beta: the softmax's inverse temperature; 0 is the plain average and has no parameters.
    The matrix starts from zero: training begins with the plain average.
    """

    def __init__(self, dim: int, beta: float) -> None:
        super().__init__()
        self.beta = beta
        self.direction = nn.Parameter(torch.zeros(dim)) if beta else None

    def forward(self, vectors: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Weights (..., L) of vectors (..., L, K) that add up to 1 over the first `lengths` (...).

        Zero beyond the lengths, and everywhere for a length of zero.
        """
        logits = vectors.new_zeros(vectors.shape[:-1])
        if self.direction is not None:
            logits = self.beta * (vectors @ self.direction.to(vectors.dtype))
        beyond = padding(lengths, vectors.shape[-2], vectors.device)
        lowest = torch.finfo(logits.dtype).min
        return logits.masked_fill(beyond, lowest).softmax(-1).masked_fill(beyond, 0.0)


class MultiAttention(nn.Module):
    """One similarity of images and captions: word-oriented or object-oriented (eq. 12).

    All vectors are unit vectors.

    Args:
        dim: K.
        orientation: word, sum_j a_j S(I, j), or object, sum_i a_i S(i, T).
        temperature: lambda_2 for words, lambda_1 for objects.
        beta: of the self-attention.

    Raises:
        ValueError: another orientation.
    """

    def __init__(self, dim: int, orientation: str, temperature: float, beta: float) -> None:
        super().__init__()
        if orientation not in ORIENTATIONS:
            raise ValueError(f"orientation {orientation!r}: allowed are {', '.join(ORIENTATIONS)}")
        self.by_words, self.temperature = orientation == "word", temperature
        self.attention = SelfAttention(dim, beta)

    def forward(
        self,
        objects: torch.Tensor,
        counts: torch.Tensor,
        words: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """Similarity of every image and every caption.

        Args:
            objects: (N, R, K).
            counts: (N,) objects that exist.
            words: (M, T, K).
            lengths: (M,) words that exist.

        Returns:
            (N, M).
        """
        if self.by_words:
            cosines = attended_cosines(words, objects, lengths, counts, self.temperature)
            weights = self.attention(words, lengths)
            return torch.einsum("mnt,mt->nm", cosines, weights)
        cosines = attended_cosines(objects, words, counts, lengths, self.temperature)
        return torch.einsum("nmr,nr->nm", cosines, self.attention(objects, counts))

    def chosen(
        self,
        objects: torch.Tensor,
        counts: torch.Tensor,
        words: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """Similarity of captions with S images each, whose objects are made for the pair.

        Args:
            objects: (M, S, R, K).
            counts: (M, S) objects that exist.
            words: (M, T, K).
            lengths: (M,) words that exist.

        Returns:
            (M, S).
        """
        words = without_padding(words, lengths)
        objects = without_padding(objects.flatten(0, 1), counts.flatten()).view(objects.shape)
        products = (objects.flatten(1, 2) @ words.mT).unflatten(1, objects.shape[1:3])
        if self.by_words:
            cosines = self._cosines(products, objects @ objects.mT)
            return torch.einsum("mst,mt->ms", cosines, self.attention(words, lengths))
        gram = (words @ words.mT)[:, None].expand(*counts.shape, -1, -1)
        return (self._cosines(products.mT, gram) * self.attention(objects, counts)).sum(-1)

    def _cosines(self, products: torch.Tensor, gram: torch.Tensor) -> torch.Tensor:
        """Cosines (M, S, Q) from products (M, S, C, Q) and Gram matrices (M, S, C, C)."""
        products = products.flatten(0, 1).contiguous()[..., None]
        cosines = gram_cosines(products, gram.flatten(0, 1), self.temperature)
        return cosines.squeeze(2).unflatten(0, gram.shape[:2])


def pair_products(
    objects: torch.Tensor, words: torch.Tensor, counts: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """Inner products of the objects and words of pairs, 0 where either is padding.

    Args:
        objects: (M, S, R, K).
        words: (M, T, K).
        counts: (M, S) objects that exist.
        lengths: (M,) words that exist.

    Returns:
        (M, S, R, T).
    """
    cosines = (objects.flatten(1, 2) @ words.transpose(1, 2)).unflatten(1, objects.shape[1:3])
    no_object = padding(counts, objects.shape[2], words.device)[..., None]
    no_word = padding(lengths, words.shape[1], words.device)[:, None, None]
    return cosines.masked_fill(no_object | no_word, 0.0)


def pair_weights(
    cosines: torch.Tensor, context_lengths: torch.Tensor, temperature: float
) -> torch.Tensor:
    """Attention of queries to contexts (eq. 4, 5; 7, 8).

    A query's affinities are relu of the cosines, divided by their L2 norm over all queries, before
    the softmax over the contexts.

    Args:
        cosines: (..., Q, C), 0 where padded.
        context_lengths: (...) contexts that exist.
        temperature: the factor lambda inside the softmax.

    Returns:
        (..., Q, C), 0 at padded contexts.
    """
    affinities = nn.functional.normalize(cosines.relu(), dim=-2, eps=SMALLEST_NORM)
    beyond = padding(context_lengths, cosines.shape[-1], cosines.device)[..., None, :]
    lowest = torch.finfo(cosines.dtype).min
    logits = (temperature * affinities).masked_fill(beyond, lowest)
    return logits.softmax(-1).masked_fill(beyond, 0.0)
