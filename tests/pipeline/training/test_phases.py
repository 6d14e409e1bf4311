"""The optimisers by name, against their steps computed by hand."""

import pytest
import torch

from pipeline.training.phases import optimiser

START, FIRST, SECOND = 2.0, 0.5, -1.0  # a weight, and its gradient in two steps


def weights_after(name, lr, momentum, weight_decay):
    """The one weight after each of two steps."""
    weight = torch.nn.Parameter(torch.tensor([START], dtype=torch.float64))
    chosen = optimiser(name, [weight], lr, momentum, weight_decay)
    found = []
    for gradient in (FIRST, SECOND):
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
        chosen.step()
        found.append(weight.item())
    return found


def test_sgd_with_momentum_and_weight_decay():
    """velocity = momentum * velocity + gradient + decay * weight; weight -= lr * velocity."""
    lr, momentum, decay = 0.1, 0.9, 0.25
    velocity = FIRST + decay * START
    one = START - lr * velocity
    velocity = momentum * velocity + SECOND + decay * one
    two = one - lr * velocity
    assert weights_after("sgd", lr, momentum, decay) == pytest.approx([one, two], rel=1e-12)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adam_and_its_decays(name):
    """Kingma and Ba 2015, algorithm 1, with its constants and the decay in the gradient; Loshchilov
    and Hutter 2019, algorithm 2, whose moments know nothing of the decay; momentum is not read."""
    lr, decay, weight, expected = 0.01, 0.25, START, []
    mean = square = 0.0
    for step, raw in enumerate((FIRST, SECOND), start=1):
        gradient = raw + decay * weight * (name == "adam")
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        rate = (square / (1 - 0.999**step)) ** 0.5 + 1e-8
        weight -= lr * decay * weight * (name == "adamw") + lr * mean / (1 - 0.9**step) / rate
        expected.append(weight)
    assert weights_after(name, lr, 0.5, decay) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("sgd", torch.optim.SGD), ("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)],
)
def test_fused_steps_are_plain_ones_to_rounding(name, kind):
    """Ten steps from the same gradients; sizes that fill no vector register, one weight frozen."""
    generator = torch.Generator().manual_seed(0)
    first = [torch.randn(shape, generator=generator) for shape in ((7, 13), (129,), (3,))]
    sides = [[torch.nn.Parameter(start.clone()) for start in first] for _ in range(2)]
    plain = kind(sides[1], 0.01, weight_decay=0.1, fused=False)
    steps = optimiser(name, sides[0], 0.01, 0.0, 0.1), plain
    assert all(group["fused"] for group in steps[0].param_groups)
    for _ in range(10):
        for one, two in zip(*(side[:2] for side in sides), strict=True):
            one.grad = torch.randn(one.shape, generator=generator)
            two.grad = one.grad.clone()
        for step in steps:
            step.step()
    for one, two, start in zip(*sides, first, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-7)
        assert torch.equal(one, start) == (len(start) == 3)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_a_weight_may_be_frozen_at_first(name):
    """As the image CNN of the dual path's first stage is; its first step is then a first step."""
    early, late = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    steps = optimiser(name, [early, late], 0.1, momentum=0.9)
    for _ in range(2):
        early.grad = torch.ones(3)
        steps.step()
    assert torch.equal(late, torch.ones(3))
    late.grad = torch.ones(3)
    steps.step()
    torch.testing.assert_close(late, torch.full((3,), 0.9))
