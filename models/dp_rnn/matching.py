"""Multi-attention cross matching: cosines with attended vectors, averaged by self-attention.

Chen and Luo 2020 (DP-RNN), eq. 4 to 12. The all-pairs form rests on the Gram form of
models.attention.cosines; so does that for chosen pairs, whose objects belong to one pair each: its
Gram matrices are still smaller than the attended vectors.
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
from models.layers.linear import inside


class SelfAttention(nn.Module):
    """Weights of the words of a caption or of the objects of an image (eq. 10, 11), at first nearly
    those of the plain average.

    beta: the softmax's inverse temperature; 0 is the plain average and has no matrix; learns:
    whether a gradient will ever reach the matrix; else it keeps its start.
    """

    direction: Tensor | None

    def __init__(self, dim: int, beta: float, learns: bool = True) -> None:
        super().__init__()
        self.beta = beta
        start = torch.empty(dim).uniform_(-(dim**-0.5), dim**-0.5) if beta else None
        if learns:
            self.direction = None if start is None else nn.Parameter(start)
        else:
            self.register_buffer("direction", start)

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Weights (..., L) of vectors (..., L, K), which sum to 1 over the first `lengths` (...),
        zero beyond."""
        logits = vectors.new_zeros(vectors.shape[:-1])
        if self.direction is not None:
            logits = self.beta * (vectors @ self.direction.to(vectors.dtype))
        return softmax_of_first(logits, lengths)


def softmax_of_first(logits: Tensor, lengths: Tensor) -> Tensor:
    """Softmax of logits (..., L) over the first `lengths` (...), zero beyond."""
    beyond = ~inside(lengths, logits.shape[-1], logits.device)
    lowest = torch.finfo(logits.dtype).min
    return logits.masked_fill(beyond, lowest).softmax(-1).masked_fill(beyond, 0.0)


class MultiAttention(nn.Module):
    """One similarity of images and captions: word-oriented or object-oriented (eq. 12). `raw`
    decides whether the length of a vector counts in the weighted sums (eq. 5, 8)."""

    def __init__(
        self,
        dim: int,  # K
        orientation: str,  # word, sum_j a_j S(I, j), or object, sum_i a_i S(i, T)
        temperature: float,  # lambda_2 for words, lambda_1 for objects
        beta: float,  # of the self-attention
        raw: bool = False,  # whether sums are of the vectors as they are; else of unit vectors
        lse: float | None = None,  # lambda of SCAN's LogSumExp instead of eq. 12; None for eq. 12
    ) -> None:
        super().__init__()
        self.by_words, self.temperature = orientation == "word", temperature
        self.raw, self.lse = raw, lse
        self.attention = SelfAttention(dim, beta)

    @property
    def weighs(self) -> bool:
        """Whether words, or objects, have weights that are learnt."""
        return self.lse is None and self.attention.direction is not None

    def forward(self, objects: Tensor, counts: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """Similarity (N, M) of every image and every caption; objects: (N, R, K), of which counts
        (N,) exist; words: (M, T, K), of which lengths (M,) exist."""
        if self.by_words:
            return self._all_pairs(words, lengths, objects, counts).T
        return self._all_pairs(objects, counts, words, lengths)

    def chosen(self, objects: Tensor, counts: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """Similarity (M, S) of captions with S images each, whose objects are made for the pair;
        objects: (M, S, R, K), of which counts (M, S) exist; words: (M, T, K), of which lengths (M,)
        exist."""
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
        self, queries: Tensor, query_lengths: Tensor, contexts: Tensor, context_lengths: Tensor
    ) -> Tensor:
        """Similarity (A, B) of A sets of queries (A, Q, K) and B of contexts (B, C, K)."""
        asking, _ = self._directions(queries, query_lengths)
        answering, norms = self._directions(contexts, context_lengths)
        cosines = attended_cosines(
            asking, answering, query_lengths, context_lengths, self.temperature, norms
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


def pair_products(objects: Tensor, words: Tensor, counts: Tensor, lengths: Tensor) -> Tensor:
    """Inner products (M, S, R, T) of the objects and words of pairs, arguments as for
    MultiAttention.chosen: (M, S, R, K), (M, T, K), (M, S), (M,); 0 where either is padding."""
    products = (objects.flatten(1, 2) @ words.transpose(1, 2)).unflatten(1, objects.shape[1:3])
    is_object = inside(counts, objects.shape[2], words.device)[..., None]
    is_word = inside(lengths, words.shape[1], words.device)[:, None, None]
    return products.masked_fill(~(is_object & is_word), 0.0)


def pair_weights(cosines: Tensor, context_lengths: Tensor, temperature: float) -> Tensor:
    """Attention (..., Q, C) of queries to contexts (eq. 4, 5; 7, 8), of which (...) exist: the
    softmax of relu of the cosines (..., Q, C), 0 where padded, over their L2 norm over all
    queries."""
    affinities = nn.functional.normalize(cosines.relu(), dim=-2, eps=SMALLEST_NORM)
    return softmax_of_first(temperature * affinities, context_lengths[..., None])
