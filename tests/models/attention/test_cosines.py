"""Cross attention in Gram form against the equations, one pair and one vector at a time."""

import pytest
import torch
from matching_cases import attended
from torch.nn import functional

from models.attention import cosines as cross_attention
from models.attention.cosines import attended_cosines, attention_weights

QUERY_LENGTHS, CONTEXT_LENGTHS = torch.tensor([5, 1, 3, 2]), torch.tensor([7, 1, 4])


def literal_pairs(queries, contexts, query_lengths, context_lengths, temperature):
    """Cosines of all pairs, zero at padded queries: (A, B, Q)."""
    width = queries.shape[1]
    rows = []
    for query, length in zip(queries, query_lengths, strict=True):
        for context, size in zip(contexts, context_lengths, strict=True):
            found, _ = attended(query[:length], context[:size], temperature)
            rows.append(functional.pad(found, (0, width - length)))
    return torch.stack(rows).view(len(queries), len(contexts), width)


def unit(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return functional.normalize(torch.randn(*shape, dtype=dtype, generator=generator), dim=-1)


def agree(queries, contexts, query_lengths, context_lengths, temperature, close):
    leaves = queries.requires_grad_(), contexts.requires_grad_()
    given = *leaves, query_lengths, context_lengths, temperature
    found, expected = attended_cosines(*given), literal_pairs(*given)
    torch.testing.assert_close(found, expected, rtol=0, atol=close)
    generator = torch.Generator().manual_seed(2)
    upstream = torch.randn(found.shape, dtype=torch.float64, generator=generator).to(found.dtype)
    ours, theirs = (torch.autograd.grad(result, leaves, upstream) for result in (found, expected))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=close, atol=close)


@pytest.mark.parametrize(
    ("dtype", "close", "temperature"),
    [
        *((torch.float64, 1e-10, temperature) for temperature in (0.0, 4.0, 9.0, 60.0)),
        # not 60: the temperature multiplies the rounding of the equations' own float32 form too
        *((torch.float32, 1e-5, temperature) for temperature in (0.0, 4.0, 9.0)),
    ],
)
def test_equals_the_equations_forwards_and_backwards(dtype, close, temperature):
    sides = unit(4, 5, 6, dtype=dtype), unit(3, 7, 6, dtype=dtype, seed=1)
    agree(*sides, QUERY_LENGTHS, CONTEXT_LENGTHS, temperature, close)


@pytest.mark.parametrize("temperature", [39.0, 41.0, 200.0])
def test_float32_is_enough_for_any_temperature(temperature):
    """Also where exp(temperature) squared is not a float32; the equations in float64."""
    queries, contexts = unit(4, 5, 6), unit(3, 7, 6, seed=1)
    sizes = QUERY_LENGTHS, CONTEXT_LENGTHS
    found = attended_cosines(queries.float(), contexts.float(), *sizes, temperature)
    expected = literal_pairs(queries, contexts, *sizes, temperature)
    close = 1e-6 * temperature  # the factor multiplies the rounding of an affinity
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=close)


@pytest.mark.parametrize(
    ("shape", "other"), [((1, 5), (3, 7)), ((4, 1), (3, 7)), ((4, 5), (1, 7)), ((4, 5), (3, 1))]
)
def test_one_set_or_one_vector(shape, other):
    """One caption, one word, one image, one region."""
    sizes = torch.full((shape[0],), shape[1]), torch.full((other[0],), other[1])
    agree(unit(*shape, 6), unit(*other, 6, seed=1), *sizes, 9.0, 1e-10)


@pytest.mark.parametrize("chunk", [1, 70])
def test_chunks_do_not_show(monkeypatch, chunk):
    monkeypatch.setattr(cross_attention, "CHUNK_ON_CPU", chunk)
    sides = unit(4, 5, 6), unit(3, 7, 6, seed=1)
    agree(*sides, QUERY_LENGTHS, CONTEXT_LENGTHS, 9.0, 1e-10)


def test_zero_vectors_and_empty_sets_stay_finite():
    """A side of norm zero is similar to nothing, and no gradient is lost to a NaN."""
    queries, contexts = unit(3, 4, 6, dtype=torch.float32), unit(3, 5, 6, dtype=torch.float32)
    queries[0], queries[1, 0], contexts[0], contexts[1, :2] = 0, 0, 0, 0
    queries.requires_grad_()
    contexts.requires_grad_()
    sizes = torch.tensor([4, 4, 4]), torch.tensor([5, 5, 0])
    result = attended_cosines(queries, contexts, *sizes, 9.0)
    for nothing in (result[0], result[:, 0], result[:, 2], result[1, :, 0]):
        assert not nothing.any()
    assert result[1, 1, 1:].all()
    result.sum().backward()
    assert queries.grad.isfinite().all()
    assert contexts.grad.isfinite().all()


def test_contexts_that_cancel_stay_finite():
    """Two opposite vectors attended alike: |t|^2 is zero up to rounding, perhaps below it."""
    context = unit(1, 1, 64, dtype=torch.float32)
    contexts = torch.cat([context, -context], 1).requires_grad_()
    queries = unit(50, 3, 64, dtype=torch.float32, seed=3)
    queries = queries - (queries @ context[0].T) * context[0]  # at right angles to both
    queries = functional.normalize(queries, dim=2).requires_grad_()
    sizes = torch.full((50,), 3), torch.tensor([2])
    result = attended_cosines(queries, contexts, *sizes, 0.0)
    assert result.abs().max() < 1e-3
    result.sum().backward()
    assert queries.grad.isfinite().all()
    assert contexts.grad.isfinite().all()


def test_weights_are_those_of_the_equations():
    queries, contexts = unit(4, 5, 6), unit(3, 7, 6, seed=1)
    found = attention_weights(queries, contexts, QUERY_LENGTHS, CONTEXT_LENGTHS, 9.0)
    expected = torch.zeros(4, 3, 5, 7, dtype=torch.float64)
    for a, length in enumerate(QUERY_LENGTHS):
        for b, size in enumerate(CONTEXT_LENGTHS):
            _, weights = attended(queries[a, :length], contexts[b, :size], 9.0)
            expected[a, b, :length, :size] = weights
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_autocast_changes_nothing():
    queries, contexts = unit(4, 5, 6, dtype=torch.float32), unit(3, 7, 6, dtype=torch.float32)
    exact = attended_cosines(queries, contexts, QUERY_LENGTHS, CONTEXT_LENGTHS, 9.0)
    with torch.autocast("cpu", torch.bfloat16):
        reduced = attended_cosines(queries, contexts, QUERY_LENGTHS, CONTEXT_LENGTHS, 9.0)
    assert torch.equal(exact, reduced)


@pytest.mark.parametrize("captions", [3, 8])
def test_half_precision_rounds_the_factors_of_inner_products_alone(captions):
    """Vectors of halves have products that bfloat16 holds; others are rounded, before and after."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.full((captions,), 5), torch.full((2,), 6)
    sides = [(captions, 5), (2, 6)]
    halves = [torch.randint(0, 2, (*size, 4), generator=generator) - 0.5 for size in sides]
    exact = attended_cosines(*halves, *lengths, 9.0)
    found = attended_cosines(*halves, *lengths, 9.0, reduced=torch.bfloat16)
    torch.testing.assert_close(found, exact, rtol=0, atol=0)
    others = [
        functional.normalize(torch.randn((*size, 64), generator=generator), dim=-1)
        for size in sides
    ]
    queries, contexts = (side.bfloat16().double() for side in others)
    expected = torch.einsum("aqk,bck->bcqa", queries, contexts)
    products = cross_attention._inner_products(*others, torch.bfloat16)
    assert products.dtype == torch.float32
    assert torch.equal(products, products.bfloat16().float())
    torch.testing.assert_close(products.double(), expected, rtol=2**-8, atol=1e-6)
