"""Multi-attention cross matching: cosines with attended vectors, averaged by self-attention (Chen
and Luo 2020, eq. 4 to 12).

`MultiAttention` is one similarity, word-oriented or object-oriented. It compares all images with
all captions, or captions with images that were read anew for them (recurrent.py). Both rest on the
Gram form of models/attention/cosines.py. Where objects belong to one pair each, their Gram matrices
are still smaller than the attended vectors.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.attention.cosines import (
    SMALLEST_NORM,
    attended_cosines,
    gram_cosines,
    without_padding,
)
from models.attention.pooling import pool_cosines
from models.layers.linear import length_mask


class SelfAttention(nn.Module):
    """Weights of the words of a caption or of the objects of an image (eq. 10, 11), at first nearly
    those of the plain average.

    Args:
        dim: K.
        beta: Inverse temperature of the softmax; 0 is the plain average, without a direction.
        learns: Whether a gradient will ever reach the direction; otherwise it is no parameter and
            keeps its start.
    """

    direction: Tensor | None

    def __init__(self, dim: int, beta: float, learns: bool = True) -> None:
        super().__init__()
        self.beta = beta
        bound = dim**-0.5
        start = torch.empty(dim).uniform_(-bound, bound) if beta else None
        if learns:
            self.direction = None if start is None else nn.Parameter(start)
        else:
            self.register_buffer("direction", start)

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """The softmax over the vectors of a set.

        Args:
            vectors: (..., L, K).
            lengths: (...) how many of the L exist.

        Returns:
            Weights (..., L), which sum to 1 over the vectors that exist, zero beyond.
        """
        logits = vectors.new_zeros(vectors.shape[:-1])
        if self.direction is not None:
            logits = self.beta * (vectors @ self.direction.to(vectors.dtype))
        return softmax_of_first(logits, lengths)


class MultiAttention(nn.Module):
    """One similarity of images and captions (eq. 12): word-oriented, sum_j a_j S(I, j), or
    object-oriented, sum_i a_i S(i, T).

    Args:
        dim: K.
        orientation: word or object.
        temperature: lambda_2 of eq. 8 for words, lambda_1 of eq. 5 for objects.
        beta: Of the self-attention.
        raw: Whether the length of a vector counts in the weighted sums (eq. 5, 8), which are of
            unit vectors otherwise.
        lse: Lambda of SCAN's LogSumExp, which takes the place of eq. 12; None for eq. 12.
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
        self.by_words = orientation == "word"
        self.temperature = temperature
        self.raw = raw
        self.lse = lse
        self.attention = SelfAttention(dim, beta)

    @property
    def has_weights(self) -> bool:
        """Whether words, or objects, have weights that are learnt."""
        return self.lse is None and self.attention.direction is not None

    def forward(self, objects: Tensor, counts: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """The similarity of every image and every caption.

        Args:
            objects: (N, R, K).
            counts: (N,) how many of the R exist.
            words: (M, T, K).
            lengths: (M,) how many of the T exist.

        Returns:
            (N, M).
        """
        if self.by_words:
            return self._all_pairs(words, lengths, objects, counts).T
        return self._all_pairs(objects, counts, words, lengths)

    def chosen(self, objects: Tensor, counts: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """The similarity of captions with S images each, whose objects are made for the pair.

        Args:
            objects: (M, S, R, K).
            counts: (M, S) how many of the R exist.
            words: (M, T, K).
            lengths: (M,) how many of the T exist.

        Returns:
            (M, S).
        """
        object_units, object_norms = self._directions(objects.flatten(0, 1), counts.flatten())
        object_units = object_units.view(objects.shape)
        word_units, word_norms = self._directions(words, lengths)
        products = object_units.flatten(1, 2) @ word_units.mT
        products = products.unflatten(1, objects.shape[1:3])
        if self.by_words:
            gram = object_units @ object_units.mT
            cosines = self._cosines(products, gram, object_norms)
            return self._pooled(cosines, words, lengths)
        gram = (word_units @ word_units.mT)[:, None].expand(*counts.shape, -1, -1)
        if word_norms is not None:
            word_norms = word_norms[:, None].expand(*counts.shape, -1).flatten(0, 1)
        cosines = self._cosines(products.mT, gram, word_norms).flatten(0, 1)[:, None]
        scores = self._pooled(cosines, objects.flatten(0, 1), counts.flatten())
        return scores.view(counts.shape)

    def _all_pairs(
        self, queries: Tensor, query_lengths: Tensor, contexts: Tensor, context_lengths: Tensor
    ) -> Tensor:
        """Similarity (A, B) of A sets of queries (A, Q, K) and B of contexts (B, C, K)."""
        query_units, _ = self._directions(queries, query_lengths)
        context_units, norms = self._directions(contexts, context_lengths)
        cosines = attended_cosines(
            query_units,
            context_units,
            query_lengths,
            context_lengths,
            self.temperature,
            norms=norms,
        )
        return self._pooled(cosines, queries, query_lengths)

    def _directions(self, vectors: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor | None]:
        """Unit vectors (A, L, K), zeros in the padding; norms (A, L), None where all are 1."""
        vectors = without_padding(vectors, lengths)
        if not self.raw:
            return vectors, None
        return normalize(vectors, dim=-1), vectors.norm(dim=-1)

    def _cosines(self, products: Tensor, gram: Tensor, norms: Tensor | None) -> Tensor:
        """Cosines (M, S, Q) from products (M, S, C, Q), Gram matrices (M, S, C, C) and norms
        (M S, C)."""
        products = products.flatten(0, 1).contiguous()[..., None]
        cosines = gram_cosines(products, gram.flatten(0, 1), self.temperature, norms)
        return cosines.squeeze(2).unflatten(0, gram.shape[:2])

    def _pooled(self, cosines: Tensor, queries: Tensor, lengths: Tensor) -> Tensor:
        """Similarity (A, B) from cosines (A, B, Q) of queries (A, Q, K), of which lengths (A,)."""
        if self.lse is not None:
            return pool_cosines(cosines, lengths, "lse", self.lse)
        return torch.einsum("abq,aq->ab", cosines, self.attention(queries, lengths))


def softmax_of_first(logits: Tensor, lengths: Tensor) -> Tensor:
    """Softmax over the beginning of each row.

    Args:
        logits: (..., L).
        lengths: (...) how many of the L count.

    Returns:
        (..., L), zero beyond the lengths.
    """
    beyond = ~length_mask(lengths, logits.shape[-1], logits.device)
    lowest = torch.finfo(logits.dtype).min
    return logits.masked_fill(beyond, lowest).softmax(-1).masked_fill(beyond, 0.0)


def pair_products(objects: Tensor, words: Tensor, counts: Tensor, lengths: Tensor) -> Tensor:
    """Inner products of the objects and words of pairs.

    Args:
        objects: (M, S, R, K), S images for each caption.
        words: (M, T, K).
        counts: (M, S) how many of the R objects exist.
        lengths: (M,) how many of the T words exist.

    Returns:
        (M, S, R, T), 0 where either is padding.
    """
    products = (objects.flatten(1, 2) @ words.transpose(1, 2)).unflatten(1, objects.shape[1:3])
    is_object = length_mask(counts, objects.shape[2], words.device)[..., None]
    is_word = length_mask(lengths, words.shape[1], words.device)[:, None, None]
    return products.masked_fill(~(is_object & is_word), 0.0)


def pair_weights(cosines: Tensor, context_lengths: Tensor, temperature: float) -> Tensor:
    """Attention of queries to contexts (eq. 4, 5; 7, 8), for pictures.

    Args:
        cosines: (..., Q, C), 0 where padded.
        context_lengths: (...) how many of the C exist.
        temperature: Lambda, inverse.

    Returns:
        (..., Q, C): the softmax of relu of the cosines over their L2 norm over all queries.
    """
    affinities = normalize(cosines.relu(), dim=-2, eps=SMALLEST_NORM)
    return softmax_of_first(temperature * affinities, context_lengths[..., None])
