"""Multi-attention against the equations of Chen and Luo 2020 as loops over objects and words."""

import math

import pytest
import torch
from matching_cases import case, direction_of, slow_similarity, unit

from models.dp_rnn.matching import MultiAttention, SelfAttention

DTYPES = [(torch.float64, 1e-10), (torch.float32, 1e-5)]


@pytest.mark.parametrize("orientation", ["word", "object"])
@pytest.mark.parametrize("beta", [0.3, 0.0])
@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_equals_the_equations(orientation, beta, chosen, dtype, tolerance):
    """All pairs at once, and chosen pairs with objects of their own; padding and a single word."""
    module, any_words, lengths = case(orientation, dtype, beta)
    shape = (3, 2, 5, 6) if chosen else (2, 5, 6)
    any_objects = torch.randn(*shape, dtype=dtype).requires_grad_()
    objects, words = unit(any_objects), unit(any_words)
    counts = torch.tensor([[5, 1], [3, 5], [2, 1]]) if chosen else torch.tensor([5, 1])
    if chosen:
        scores = module.chosen(objects, counts, words, lengths)
    else:
        scores = module(objects, counts, words, lengths).T
    expected = torch.stack(
        [
            slow_similarity(
                (objects[m, n] if chosen else objects[n])[: counts[m, n] if chosen else counts[n]],
                words[m, : lengths[m]],
                orientation,
                5.0,
                direction_of(module).to(dtype),
                beta,
            )
            for m in range(3)
            for n in range(2)
        ]
    ).reshape(3, 2)
    torch.testing.assert_close(scores, expected, rtol=0, atol=tolerance)
    upstream = torch.randn_like(scores)
    leaves = [any_objects, any_words, *module.parameters()]
    ours = torch.autograd.grad((scores * upstream).sum(), leaves, retain_graph=True)
    slow = torch.autograd.grad((expected * upstream).sum(), leaves)
    for left, right in zip(ours, slow, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=50 * tolerance)


def test_weights_are_a_softmax_over_what_exists():
    torch.manual_seed(0)
    attention = SelfAttention(3, 0.5)
    torch.nn.init.normal_(attention.direction)
    vectors = torch.randn(2, 4, 3)
    weights = attention(vectors, torch.tensor([3, 0]))
    shares = [math.exp(0.5 * (vectors[0, j] @ attention.direction).item()) for j in range(3)]
    assert weights[0].tolist() == pytest.approx([s / sum(shares) for s in shares] + [0], abs=1e-6)
    assert not weights[1].any()


def test_training_starts_from_the_plain_average():
    vectors = torch.randn(2, 4, 3)
    even = SelfAttention(3, 0.0)(vectors, torch.tensor([4, 2]))
    assert even.tolist() == [[0.25] * 4, [0.5, 0.5, 0, 0]]
    assert torch.equal(SelfAttention(3, 0.3)(vectors, torch.tensor([4, 2])), even)
    assert not list(SelfAttention(3, 0.0).parameters())


def test_unknown_orientation():
    with pytest.raises(ValueError, match="'up': allowed are word, object"):
        MultiAttention(6, "up", 9.0, 0.3)
