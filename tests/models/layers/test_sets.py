"""Poolings of sets against loops over sets, dimensions and positions."""

import math

import pytest
import torch

from models.layers import sets
from models.layers.sets import GPO, POOLS, MaxPool, MeanPool, sorted_sum

COUNTS = torch.tensor([5, 1, 7, 0, 3, 7])
THERE = torch.arange(7) < COUNTS[:, None]


@pytest.fixture(params=[torch.float32, torch.float64], ids=str)
def items(request):
    """Sets (6, 7, 4), what stands in the padding being largest, with equal values in some."""
    items = torch.randn(6, 7, 4, generator=torch.Generator().manual_seed(1)).to(request.param)
    items[2, 3], items[4, :, 1], items[5, :3, 2] = items[2, 0], 0.5, -0.0
    return items.where(THERE[..., None], 9.0).requires_grad_()


def literal(items, weights, counts):
    """Of every set and dimension the sum of weight times value, the values in descending order."""
    pooled = items.new_zeros(len(items), items.shape[2])
    for row, count in enumerate(counts.tolist()):
        for place, values in enumerate(items[row, :count].T if count else ()):
            for k, item in enumerate(sorted(range(count), key=lambda i: -values[i].item())):
                pooled[row, place] = pooled[row, place] + weights[row, k] * values[item]
    return pooled


def test_sorted_sums_and_their_gradients_equal_a_loop(items, monkeypatch):
    monkeypatch.setattr(sets, "PART", 60)  # two sets at a time
    generator = torch.Generator().manual_seed(2)
    weights = (torch.rand(6, 7, generator=generator).to(items) * THERE).requires_grad_()
    found, expected = (form(items, weights, COUNTS) for form in (sorted_sum, literal))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    sent = torch.randn(found.shape, generator=generator).to(items)
    ours, theirs = (torch.autograd.grad(p, (items, weights), sent) for p in (found, expected))
    torch.testing.assert_close(ours[1], theirs[1], rtol=0, atol=1e-5)
    unequal = [0, 1, 3]  # in the other sets equal values share what they get
    torch.testing.assert_close(ours[0][unequal], theirs[0][unequal], rtol=0, atol=1e-6)
    torch.testing.assert_close(ours[0].sum(1), theirs[0].sum(1), rtol=0, atol=1e-5)


def test_mean_and_maximum_are_special_cases(items):
    even = (THERE / COUNTS.clamp_min(1)[:, None]).to(items)
    first = (THERE & (torch.arange(7) == 0)).to(items)
    for theta, pool, of_one in ((even, MeanPool(), torch.mean), (first, MaxPool(), torch.amax)):
        found = sorted_sum(items, theta, COUNTS)
        pairs = zip(items, COUNTS.tolist(), strict=True)
        alone = [of_one(own[:count], 0) if count else 0 * own[0] for own, count in pairs]
        torch.testing.assert_close(found, torch.stack(alone), rtol=0, atol=1e-6)
        torch.testing.assert_close(pool(items, COUNTS), torch.stack(alone), rtol=0, atol=1e-6)


def test_theta_equals_a_generator_of_one_size(items):
    """Chen et al. 2021, section 3: encodings of the positions of one set, GRU, softmax."""
    torch.manual_seed(0)
    pool = GPO(8, 6).to(items)
    weights = pool.theta(COUNTS, 7)
    for own, count in zip(weights, COUNTS.tolist(), strict=True):
        assert not own[count:].any()
        if count:
            angles = [[k / 10_000 ** (2 * i / 8) for i in range(4)] for k in range(count)]
            codes = [[f(a) for a in row for f in (math.sin, math.cos)] for row in angles]
            states = pool.gru(torch.tensor(codes).to(items)[None])[0][0]
            scores = pool.score((states[:, :6] + states[:, 6:]) / 2)[:, 0]
            torch.testing.assert_close(own[:count], (scores / 0.1).softmax(0), rtol=0, atol=1e-6)
    expected = literal(items, weights, COUNTS)
    torch.testing.assert_close(pool(items, COUNTS), expected, rtol=0, atol=1e-6)
    torch.nn.init.zeros_(pool.score.weight)
    torch.testing.assert_close(pool(items, COUNTS), MeanPool()(items, COUNTS), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", POOLS)
def test_what_is_no_number_is_seen_and_padding_is_not(name):
    items = torch.zeros(2, 3, 2)
    items[0, 2], items[1, 0, 1] = torch.nan, torch.nan
    found = POOLS[name]()(items, torch.tensor([2, 2]))
    assert found.isnan().tolist() == [[False, False], [False, True]]
