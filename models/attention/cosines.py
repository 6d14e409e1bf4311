"""Cosines of vectors with what they attend to, without ever building the attended vectors.

SCAN and DP-RNN compare every image with every caption through attended vectors, one per pair and
word or region. Their cosines need only the vectors' inner products across the two sides and, per
context set, within it (its Gram matrix): |sum_c a_c v_c|^2 = a' G a.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from models.layers.linear import at_least_float32, length_mask

SMALLEST_NORM = 1e-8  # of a context's cosines over the queries; SCAN's value

# a squared norm below this many rounding errors counts as zero
ROUNDING = 10

# of a weight beside others of 1: up to here squares of their sums fit float32
LARGEST_EXPONENT = 40.0

# pad queries to a multiple of it: on a CPU other widths are 1.5x slower
EVEN = 8

# values of a chunk of pairs: fits a CPU's second cache, or fills another device
CHUNK_ON_CPU = 1 << 17
CHUNK_ELSEWHERE = 1 << 24


def attended_cosines(
    queries: Tensor,
    contexts: Tensor,
    query_lengths: Tensor,
    context_lengths: Tensor,
    temperature: float,
    norms: Tensor | None = None,
    reduced: torch.dtype | None = None,
) -> Tensor:
    """Cosine of each query vector with its attended context vector, for all pairs of two sets.

    Chen and Luo 2020, eq. 4-6 (and 7-9 with the sides exchanged). Memory: A B Q C floats, as many
    again for gradients; gradients of first order only. Padding never enters, and autocast changes
    nothing.

    Args:
        queries: (A, Q, K) unit vectors or zeros, padded at the end.
        contexts: (B, C, K) unit vectors or zeros, padded at the end.
        query_lengths: (A,) integers, best on the CPU.
        context_lengths: (B,) integers, best on the CPU.
        temperature: the factor lambda inside the softmax over the contexts.
        norms: (B, C) lengths of the contexts' vectors before they were made unit vectors: these are
            attended to, as in eq. 5 and 8; None: the unit vectors, as in SCAN.
        reduced: half precision of the inner products across the sides, whose sums are float32;
            None for full precision.

    Returns:
        (A, B, Q), at least float32, 0 at padded queries and where a side is zero.
    """
    with torch.autocast(queries.device.type, enabled=False):
        queries = without_padding(queries, query_lengths)
        contexts = without_padding(contexts, context_lengths)
        gram = contexts @ contexts.transpose(1, 2)
        products = _inner_products(queries, contexts, reduced)
        cosines = gram_cosines(products, gram, temperature, norms)
    return cosines.permute(2, 0, 1)


def gram_cosines(
    products: Tensor, gram: Tensor, temperature: float, norms: Tensor | None = None
) -> Tensor:
    """The cosines of `attended_cosines` from inner products alone.

    Args:
        products: (B, C, Q, A) of C contexts and A sets of Q queries, 0 where a vector is padding.
        gram: (B, C, C) Gram matrices of the contexts.
        temperature: the factor lambda inside the softmax over the contexts.
        norms: (B, C), factors of the weights: a sum of vectors as they are is one of unit vectors
            whose weights are multiplied by their norms; None for unit vectors.

    Returns:
        (B, Q, A).
    """
    return _GramCosines.apply(products, gram, norms, temperature)


def attention_weights(
    queries: Tensor,
    contexts: Tensor,
    query_lengths: Tensor,
    context_lengths: Tensor,
    temperature: float,
) -> Tensor:
    """The softmax weights behind `attended_cosines`, for pictures; no gradients.

    Args:
        queries: (A, Q, K) unit vectors or zeros, padded at the end.
        contexts: (B, C, K) unit vectors or zeros, padded at the end.
        query_lengths: (A,) integers, best on the CPU.
        context_lengths: (B,) integers, best on the CPU.
        temperature: the factor lambda inside the softmax over the contexts.

    Returns:
        (A, B, Q, C), sums of 1 over the contexts of each query, 0 at padding.
    """
    with torch.no_grad(), torch.autocast(queries.device.type, enabled=False):
        queries = without_padding(queries, query_lengths)
        contexts = without_padding(contexts, context_lengths)
        weights, _, _ = _relative_weights(_inner_products(queries, contexts), temperature)
        is_context = length_mask(context_lengths, contexts.shape[1], queries.device)
        is_query = length_mask(query_lengths, queries.shape[1], queries.device)
        weights *= is_context[:, :, None, None]
        weights /= weights.sum(1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
        return weights.permute(3, 0, 2, 1) * is_query[:, None, :, None]


def without_padding(vectors: Tensor, lengths: Tensor) -> Tensor:
    """Vectors with zeros in the padding.

    Args:
        vectors: (A, Q, K), padded at the end.
        lengths: (A,) vectors that exist.

    Returns:
        (A, Q, K), at least float32; a copy only if needed.
    """
    vectors = at_least_float32(vectors)
    if bool((lengths >= vectors.shape[1]).all()):
        return vectors
    present = length_mask(lengths, vectors.shape[1], vectors.device)
    return vectors.masked_fill(~present[..., None], 0.0)


def _inner_products(
    queries: Tensor, contexts: Tensor, reduced: torch.dtype | None = None
) -> Tensor:
    """All inner products of (A, Q, K) with (B, C, K), one GEMM: (B, C, Q, A), so that sums over
    contexts and queries run along rows of A values side by side in memory."""
    side = queries.transpose(0, 1)
    rows = side.reshape(-1, side.shape[2])
    missing = -len(rows) % EVEN
    left = contexts.flatten(0, 1)
    right = functional.pad(rows, (0, 0, 0, missing))
    if reduced is not None:
        left = left.to(reduced)
        right = right.to(reduced)
    flat = (left @ right.T).to(rows.dtype)
    return flat[:, : len(rows)].unflatten(1, side.shape[:2]).unflatten(0, contexts.shape[:2])


def _relative_weights(products: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """Attention (..., C, Q, A) up to a factor per query, which no cosine depends on; affinities
    (..., C, Q, A), the cosines above zero times the inverse norms over the queries; these norms
    (..., C, 1, A)."""
    affinity = products.relu()
    # not vector_norm and not exp: on a CPU they take many times longer over these dimensions
    norms = (affinity * affinity).sum(-2, keepdim=True).sqrt_().clamp_min_(SMALLEST_NORM)
    inverse = norms.reciprocal_()
    weights = affinity.mul_(inverse) * (temperature / math.log(2))
    if temperature > LARGEST_EXPONENT:
        weights -= weights.amax(-3, keepdim=True)
    return weights.exp2_(), affinity, inverse


class _GramCosines(torch.autograd.Function):
    """From inner products (B, C, Q, A), Gram matrices (B, C, C) and norms (B, C) or None to cosines
    (B, Q, A). A few sets at a time, computed again for the gradients."""

    @staticmethod
    def forward(
        ctx: Any, products: Tensor, gram: Tensor, norms: Tensor | None, temperature: float
    ) -> Tensor:
        ctx.save_for_backward(products, gram, norms)
        ctx.temperature = temperature
        cosines = products.new_empty(products.shape[0], *products.shape[2:])
        for chunk in _chunks_of(products, gram):
            weights, _, _ = _relative_weights(products[chunk], temperature)
            if norms is not None:
                weights *= norms[chunk, :, None, None]
            along, squares, _ = _along_and_squares(weights, products[chunk], gram[chunk])
            inverse = torch.maximum(squares, _floor(weights)).rsqrt_()
            torch.mul(along, inverse, out=cosines[chunk])
        return cosines

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        products, gram, norms = ctx.saved_tensors
        to_products = torch.empty_like(products)
        to_gram = torch.empty_like(gram)
        to_norms = None if norms is None else torch.empty_like(norms)
        for chunk in _chunks_of(products, gram):
            _backward(
                ctx.temperature,
                products[chunk],
                gradient[chunk],
                gram[chunk],
                to_products[chunk],
                to_gram[chunk],
                None if norms is None else norms[chunk],
                None if to_norms is None else to_norms[chunk],
            )
        return to_products, to_gram, to_norms, None


def _chunks_of(products: Tensor, gram: Tensor) -> list[slice]:
    """Ranges of a few context sets, of B whose products are (B, C, Q, A) and Gram matrices
    (B, C, C): as many as a cache holds."""
    largest = max(products.shape[1:].numel(), gram.shape[1:].numel())
    values = CHUNK_ON_CPU if products.device.type == "cpu" else CHUNK_ELSEWHERE
    size = max(1, values // largest)
    return [slice(start, start + size) for start in range(0, len(products), size)]


def _along_and_squares(
    weights: Tensor, products: Tensor, gram: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The attended vectors' parts along their queries, squared norms (B, Q, A), and G a. weights,
    products and G a: (B, C, Q, A); gram: (B, C, C)."""
    spread = (gram @ weights.flatten(2)).view_as(weights)
    return (weights * products).sum(1), (weights * spread).sum(1), spread


def _floor(weights: Tensor) -> Tensor:
    """Squared norms (B, Q, A) that rounding may leave where attended vectors are zero."""
    total = weights.sum(1)
    return total.mul_(total).mul_(ROUNDING * torch.finfo(weights.dtype).eps)


def _backward(
    temperature: float,
    products: Tensor,
    gradient: Tensor,
    gram: Tensor,
    to_products: Tensor,
    to_gram: Tensor,
    norms: Tensor | None = None,
    to_norms: Tensor | None = None,
) -> None:
    """Write the gradients of a few context sets.

    With weights a, products s and r = |attended|: cos = a's / r, so that dcos/ds = a / r and
    dcos/da = s / r - (a's) G a / r^3; then through softmax's exponential and the division by the
    norm over the queries. A norm is a factor of its context's weights: its gradient is the sum of a
    dcos/da over its queries, divided by it. gradient: (B, Q, A); products, to_products: (B, C, Q,
    A); gram, to_gram: (B, C, C); norms, to_norms: (B, C).
    """
    weights, affinity, scale = _relative_weights(products, temperature)
    if norms is not None:
        weights *= norms[..., None, None]
    along, squares, spread = _along_and_squares(weights, products, gram)
    floor = _floor(weights)
    inverse = torch.maximum(squares, floor).rsqrt_()
    to_along = gradient * inverse
    to_squares = (to_along * along * inverse * inverse).mul_(-0.5).mul_(squares > floor)
    to_along = to_along[:, None]
    to_squares = to_squares[:, None]
    torch.matmul((weights * to_squares).flatten(2), weights.flatten(2).mT, out=to_gram)
    if norms is not None and to_norms is not None:
        weighted = weights * torch.addcmul(products * to_along, spread, to_squares, value=2)
        # a vector of length zero is none to change: its products are zero
        tiny = torch.finfo(norms.dtype).tiny
        torch.div(weighted.sum((2, 3)), norms.clamp_min(tiny), out=to_norms)
    change = spread.mul_(2 * temperature * to_squares)
    change.addcmul_(products, temperature * to_along).mul_(weights)
    inward = (change * affinity).sum(2, keepdim=True).mul_(scale < 1 / SMALLEST_NORM)
    change.addcmul_(affinity, inward, value=-1).mul_(scale).mul_(affinity.sign_())
    torch.addcmul(change, weights, to_along, out=to_products)
