"""The ranking losses against loops over every pair, and their limits."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.losses.ranking import LOSSES, RankingLoss


def slow_loss(scores, groups, name, margin, k, reduction):
    """Eq. 2 to 4 of Sun et al. 2019 as loops over pairs, in Python floats."""
    size = len(groups)
    total = 0.0
    for direction in ("i2t", "t2i"):
        for query in range(size):
            hinges = []
            for item in range(size):
                if groups[item] != groups[query]:
                    pair = (query, item) if direction == "i2t" else (item, query)
                    hinges.append(
                        max(0.0, margin - scores[query][query] + scores[pair[0]][pair[1]])
                    )
            hinges.sort(reverse=True)
            keep = {"sum_margin": len(hinges), "max_margin": 1, "knn_margin": k}[name]
            total += sum(hinges[:keep])
    return total / size if reduction == "mean" else total


def slow_gradient(scores, groups, name, margin, k):
    """Gradient of the slow loss by central differences."""
    step = 1e-6
    gradient = torch.zeros_like(scores)
    for row, column in itertools.product(range(len(groups)), repeat=2):
        moved = []
        for sign in (1, -1):
            other = scores.clone()
            other[row, column] += sign * step
            moved.append(slow_loss(other.tolist(), groups, name, margin, k, "sum"))
        gradient[row, column] = (moved[0] - moved[1]) / (2 * step)
    return gradient


def random_case(seed, size=7, images=4, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(size, size, generator=generator, dtype=torch.float64) * 2 - 1
    groups = torch.randint(images, (size,), generator=generator)
    return scores.to(dtype), groups


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 1e-5)]
)
def test_equals_the_loop(name, reduction, dtype, tolerance):
    for seed in range(10):
        scores, groups = random_case(seed, dtype=dtype)
        leaf = scores.requires_grad_()
        loss = RankingLoss(name, 0.2, 2, reduction)(leaf, groups)
        expected = slow_loss(scores.tolist(), groups.tolist(), name, 0.2, 2, reduction)
        assert loss.item() == pytest.approx(expected, rel=tolerance, abs=tolerance)
        loss.backward()
        assert leaf.grad.dtype == dtype
        assert torch.isfinite(leaf.grad).all()


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_equals_the_loops_differences(name):
    for seed in range(5):
        scores, groups = random_case(seed)
        leaf = scores.clone().requires_grad_()
        RankingLoss(name, 0.2, 2)(leaf, groups).backward()
        expected = slow_gradient(scores, groups.tolist(), name, 0.2, 2)
        torch.testing.assert_close(leaf.grad, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_gradcheck(name, reduction):
    scores, groups = random_case(3)
    loss = RankingLoss(name, 0.2, 2, reduction)
    assert torch.autograd.gradcheck(lambda s: loss(s, groups), scores.requires_grad_())


@given(
    seed=st.integers(0, 10_000),
    size=st.integers(2, 12),
    images=st.integers(1, 12),
    margin=st.floats(0.01, 2),
)
@settings(max_examples=60, deadline=None)
def test_knn_margin_has_the_other_two_as_its_limits(seed, size, images, margin):
    """METHODS.md section 1: k = 1 is max_margin, k >= B - 1 is sum_margin, to the last bit."""
    scores, groups = random_case(seed, size, images, torch.float32)

    def loss(name, k=1):
        leaf = scores.clone().requires_grad_()
        value = RankingLoss(name, margin, k)(leaf, groups)
        value.backward()
        return value.item(), leaf.grad.tolist()

    assert loss("knn_margin", 1) == loss("max_margin")
    for k in (size - 1, size, 10 * size):
        assert loss("knn_margin", k) == loss("sum_margin")


@pytest.mark.parametrize("name", LOSSES)
def test_more_neighbours_than_negatives(name):
    scores = torch.tensor([[0.1, 0.4, 0.3], [0.2, 0.1, 0.5], [0.3, 0.2, 0.0]])
    groups = torch.tensor([0, 0, 1])  # the first two queries have a single negative
    loss = RankingLoss(name, 0.2, 2)(scores, groups)
    assert loss.item() == pytest.approx(slow_loss(scores.tolist(), [0, 0, 1], name, 0.2, 2, "sum"))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_batch_without_negatives_gives_zero_and_no_gradient(name, reduction):
    scores = torch.rand(4, 4, requires_grad=True)
    loss = RankingLoss(name, 0.2, 3, reduction)(scores, torch.zeros(4, dtype=torch.int64))
    loss.backward()
    assert loss.item() == 0
    assert not scores.grad.any()


def test_captions_of_the_same_image_are_no_negatives():
    groups = torch.tensor([7, 7, 3])
    scores = torch.eye(3)
    scores[0, 1] = scores[1, 0] = 5.0  # would cost 4.2 a direction if they were
    assert RankingLoss("sum_margin", 0.2)(scores, groups).item() == 0


@pytest.mark.parametrize("name", LOSSES)
def test_inside_autocast(name):
    scores, groups = random_case(1, dtype=torch.float32)
    loss = RankingLoss(name, 0.2, 2)
    with torch.autocast("cpu", torch.bfloat16):
        inside = loss(scores, groups)
    assert inside.dtype == torch.float32
    assert inside.item() == loss(scores, groups).item()


def test_collapsed_scores_cost_two_margins_per_pair():
    """METHODS.md section 1: max-margin from scratch can stick at 2 B margin."""
    loss = RankingLoss("max_margin", 0.2)(torch.full((6, 6), 0.9), torch.arange(6))
    assert loss.item() == pytest.approx(2 * 6 * 0.2)


@pytest.mark.parametrize(
    "arguments", [{"name": "margin"}, {"name": "sum_margin", "reduction": "none"}]
)
def test_unknown_names_are_refused(arguments):
    with pytest.raises(ValueError, match="allowed are"):
        RankingLoss(margin=0.2, **arguments)
