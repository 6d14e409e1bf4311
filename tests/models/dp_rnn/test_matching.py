"""Multi-attention against the equations of Chen and Luo 2020 as loops over objects and words."""

import pytest
import torch
from matching_cases import attended, case, direction_of, slow_similarity, unit

from models.dp_rnn.matching import SelfAttention

DTYPES = [(torch.float64, 1e-10), (torch.float32, 1e-5)]


@pytest.mark.parametrize("orientation", ["word", "object"])
@pytest.mark.parametrize("beta", [0.3, 0.0])
@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_equals_the_equations(orientation, beta, chosen, raw, dtype, tolerance):
    """All pairs at once, and chosen pairs with objects of their own; padding and a single word."""
    module, any_words, lengths = case(orientation, dtype, beta, raw=raw)
    shape = (3, 2, 5, 6) if chosen else (2, 5, 6)
    any_objects = torch.randn(*shape, dtype=dtype).requires_grad_()
    # raw: some vectors are ten times as long as others
    scales = torch.tensor([0.3, 3, 1, 0.5, 2], dtype=dtype)[:, None]
    objects, words = any_objects * scales, any_words * scales[:4]
    if not raw:
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


def test_no_beta_is_the_plain_average_and_a_beta_starts_near_it():
    torch.manual_seed(0)
    vectors, lengths = torch.randn(2, 4, 64), torch.tensor([4, 2])
    even = SelfAttention(64, 0.0)(vectors, lengths)
    assert even.tolist() == [[0.25] * 4, [0.5, 0.5, 0, 0]]
    started = SelfAttention(64, 0.3)
    assert started.direction.abs().max() <= 1 / 8
    assert not torch.equal(started(vectors, lengths), even)
    torch.testing.assert_close(started(vectors, lengths), even, rtol=0.7, atol=0)
    assert not list(SelfAttention(64, 0.0).parameters())


@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("orientation", ["word", "object"])
def test_log_sum_exp_takes_the_place_of_the_weights(orientation, chosen):
    module, words, lengths = case(orientation, torch.float64, 0.0, lse=3.0)
    counts = torch.tensor([[5, 1], [3, 5], [2, 1]]) if chosen else torch.tensor([5, 1])
    objects, words = unit(torch.randn(*counts.shape, 5, 6, dtype=torch.float64)), unit(words)
    sides = objects, counts, words, lengths
    found = module.chosen(*sides) if chosen else module(*sides).T
    for caption in range(3):
        for image in range(2):
            place = (caption, image) if chosen else image
            things, said = objects[place][: counts[place]], words[caption, : lengths[caption]]
            queries, contexts = (said, things) if orientation == "word" else (things, said)
            cosines, _ = attended(queries, contexts, 5.0)
            expected = (3.0 * cosines).exp().sum().log() / 3.0
            torch.testing.assert_close(found[caption, image], expected, rtol=0, atol=1e-10)
