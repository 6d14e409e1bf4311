"""Multi-attention cross matching: cosines with attended vectors, averaged by self-attention.

Chen and Luo 2020 (DP-RNN), eq. 4 to 12. The all-pairs form rests on the Gram form of
models.attention.cosines; so does that for chosen pairs, whose objects belong to one pair each: its
Gram matrices are still smaller than the attended vectors.
"""

import torch
from torch import nn
from torch.nn.functional import normalize

from models.attention.cosines import (
    SMALLEST_NORM,
    attended_cosines,
    gram_cosines,
    inside,
    without_padding,
)
from models.attention.pooling import pool_cosines

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

    The matrix starts as a linear layer's does, uniform within 1 / sqrt(K): the weights are nearly
    those of the plain average.

    Args:
        dim: K.
        beta: the softmax's inverse temperature; 0 is the plain average and has no matrix.
        learns: whether a gradient will ever reach the matrix; where none does it keeps its start.
    """

    direction: torch.Tensor | None

    def __init__(self, dim: int, beta: float, learns: bool = True) -> None:
        super().__init__()
        self.beta = beta
        start = torch.empty(dim).uniform_(-(dim**-0.5), dim**-0.5) if beta else None
        if learns:
            self.direction = None if start is None else nn.Parameter(start)
        else:
            self.register_buffer("direction", start)

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

    Vectors may be of any length. Whether theirs counts in the weighted sums (eq. 5, 8) is decided
    here, whether it does in the self-attention by what the caller gives.

    Args:
        dim: K.
        orientation: word, sum_j a_j S(I, j), or object, sum_i a_i S(i, T).
        temperature: lambda_2 for words, lambda_1 for objects.
        beta: of the self-attention.
        raw: whether the weighted sums are of the vectors as they are; else these are unit vectors.
        lse: lambda of SCAN's LogSumExp, which then takes the place of eq. 12; None for eq. 12.

    Raises:
        ValueError: another orientation.
    """

    def __init__(
        self,
        dim: int,
        orientation: str,
        temperature: float,
        beta: float,
        raw: bool = False,
        lse: float | None = None,
    ) -> None:
        super().__init__()
        if orientation not in ORIENTATIONS:
            raise ValueError(f"orientation {orientation!r}: allowed are {', '.join(ORIENTATIONS)}")
        self.by_words, self.temperature = orientation == "word", temperature
        self.raw, self.lse = raw, lse
        self.attention = SelfAttention(dim, beta)

    @property
    def weighs(self) -> bool:
        """Whether words, or objects, have weights that are learnt."""
        return self.lse is None and self.attention.direction is not None

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
            return self._all_pairs(words, lengths, objects, counts).T
        return self._all_pairs(objects, counts, words, lengths)

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
        shape = objects.shape
        things, sizes = self._directions(objects.flatten(0, 1), counts.flatten())
        things = things.view(shape)
        said, lines = self._directions(words, lengths)
        products = (things.flatten(1, 2) @ said.mT).unflatten(1, shape[1:3])
        if self.by_words:
            cosines = self._cosines(products, things @ things.mT, sizes)
            return self._pooled(cosines, words, lengths)
        gram = (said @ said.mT)[:, None].expand(*counts.shape, -1, -1)
        if lines is not None:
            lines = lines[:, None].expand(*counts.shape, -1).flatten(0, 1)
        cosines = self._cosines(products.mT, gram, lines)
        pairs = cosines.flatten(0, 1)[:, None], objects.flatten(0, 1), counts.flatten()
        return self._pooled(*pairs).view(counts.shape)

    def _all_pairs(
        self,
        queries: torch.Tensor,
        query_lengths: torch.Tensor,
        contexts: torch.Tensor,
        context_lengths: torch.Tensor,
    ) -> torch.Tensor:
        """Similarity (A, B) of A sets of queries (A, Q, K) and B of contexts (B, C, K)."""
        asking, _ = self._directions(queries, query_lengths)
        answering, norms = self._directions(contexts, context_lengths)
        cosines = attended_cosines(
            asking, answering, query_lengths, context_lengths, self.temperature, norms
        )
        return self._pooled(cosines, queries, query_lengths)

    def _directions(
        self, vectors: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Unit vectors (A, L, K), zeros in the padding; norms (A, L), None where all are 1."""
        vectors = without_padding(vectors, lengths)
        if not self.raw:
            return vectors, None
        return normalize(vectors, dim=-1), vectors.norm(dim=-1)

    def _cosines(
        self, products: torch.Tensor, gram: torch.Tensor, norms: torch.Tensor | None
    ) -> torch.Tensor:
        """Cosines (M, S, Q) from products (M, S, C, Q), Gram matrices (M, S, C, C) and norms
        (M S, C)."""
        products = products.flatten(0, 1).contiguous()[..., None]
        cosines = gram_cosines(products, gram.flatten(0, 1), self.temperature, norms)
        return cosines.squeeze(2).unflatten(0, gram.shape[:2])

    def _pooled(
        self, cosines: torch.Tensor, queries: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Similarity (A, B) from cosines (A, B, Q) of queries (A, Q, K), of which lengths (A,)."""
        if self.lse is not None:
            return pool_cosines(cosines, inside(lengths, queries), "lse", self.lse)
        return torch.einsum("abq,aq->ab", cosines, self.attention(queries, lengths))


def pair_products(
    objects: torch.Tensor, words: torch.Tensor, counts: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """Inner products of the objects and words of pairs, 0 where either is padding.

    They are the cosines of unit vectors.

    Args:
        objects: (M, S, R, K).
        words: (M, T, K).
        counts: (M, S) objects that exist.
        lengths: (M,) words that exist.

    Returns:
        (M, S, R, T).
    """
    products = (objects.flatten(1, 2) @ words.transpose(1, 2)).unflatten(1, objects.shape[1:3])
    no_object = padding(counts, objects.shape[2], words.device)[..., None]
    no_word = padding(lengths, words.shape[1], words.device)[:, None, None]
    return products.masked_fill(no_object | no_word, 0.0)


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
