"""The optimisers by name and the learning rates, against torch's own."""

from functools import partial

import pytest
import torch
from torch.optim import lr_scheduler

from pipeline.training.schedule import Schedule, build_optimiser, give_own_rate


@pytest.mark.parametrize(
    ("name", "momentum", "kind"),
    [
        ("sgd", 0.0, partial(torch.optim.SGD, momentum=0.0)),
        ("sgd", 0.9, partial(torch.optim.SGD, momentum=0.9)),
        ("adam", 0.9, torch.optim.Adam),  # which do not read it
        ("adamw", 0.9, torch.optim.AdamW),
    ],
)
def test_steps_are_the_plain_ones_of_torch_to_rounding(name, momentum, kind):
    """Ten steps from the same gradients; sizes that fill no vector register, one weight frozen."""
    generator = torch.Generator().manual_seed(0)
    first = [torch.randn(shape, generator=generator) for shape in ((7, 13), (129,), (3,))]
    sides = [[torch.nn.Parameter(start.clone()) for start in first] for _ in range(2)]
    plain = kind(sides[1], 0.01, weight_decay=0.1, fused=False)
    steps = build_optimiser(name, sides[0], 0.01, momentum, 0.1, spare=False), plain
    fused = name != "sgd" or momentum == 0
    assert all(group["fused"] == fused for group in steps[0].param_groups)
    for _ in range(10):
        for one, two in zip(*(side[:2] for side in sides), strict=True):
            one.grad = torch.randn(one.shape, generator=generator)
            two.grad = one.grad.clone()
        for step in steps:
            step.step()
    for one, two, start in zip(*sides, first, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-7)
        assert torch.equal(one, start) == (len(start) == 3)


def test_adamw_decays_matrices_alone():
    """Gradients of 0 leave the decay: a bias and a temperature stay."""
    first = [torch.full(shape, 2.0) for shape in ((7, 13), (129,), ())]
    weights = [torch.nn.Parameter(start.clone()) for start in first]
    for weight in weights:
        weight.grad = torch.zeros(weight.shape)
    build_optimiser("adamw", weights, 0.01, weight_decay=0.1).step()
    for weight, factor, start in zip(weights, (1 - 0.01 * 0.1, 1, 1), first, strict=True):
        torch.testing.assert_close(weight, factor * start, rtol=1e-6, atol=0)


def test_some_weights_may_have_a_rate_of_their_own():
    """A share of that of the others, which stay where they were with what AdamW says of each."""
    weights = [torch.nn.Parameter(torch.ones(shape)) for shape in ((2, 3), (3,), (3, 2), (2,))]
    optimiser = build_optimiser("adamw", weights, 0.01, weight_decay=0.1)
    give_own_rate(optimiser, weights[2:], 0.1)
    rates = {
        id(own): (group["lr"], group["weight_decay"])
        for group in optimiser.param_groups
        for own in group["params"]
    }
    expected = [(0.01, 0.1), (0.01, 0.0), (0.001, 0.1), (0.001, 0.0)]
    assert [rates[id(weight)] for weight in weights] == [pytest.approx(own) for own in expected]
    assert sum(len(group["params"]) for group in optimiser.param_groups) == len(weights)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of SequentialLR, about itself
@pytest.mark.parametrize("warmup", [1, 3])
@pytest.mark.parametrize("name", ["step", "cosine"])
def test_rates_are_those_of_torchs_schedulers(name, warmup):
    """Seven epochs of five steps: a linear rise, and a fall every two epochs or a cosine."""
    schedule = Schedule(2, 0.3, 0.0, "fp32", schedule=name, lr_warmup_epochs=warmup)
    found = [schedule.rate_factor(done // 5, done, 35, 5) for done in range(35)]
    plain = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 1.0)
    rise = lr_scheduler.LinearLR(plain, 1 / (5 * warmup), total_iters=5 * warmup - 1)
    if name == "step":
        steps = lr_scheduler.ChainedScheduler([lr_scheduler.StepLR(plain, 2 * 5, 0.3), rise])
    else:
        fall = lr_scheduler.CosineAnnealingLR(plain, 35 - 5 * warmup)
        steps = lr_scheduler.SequentialLR(plain, [rise, fall], [5 * warmup])
    for share in found:
        assert share == pytest.approx(plain.param_groups[0]["lr"], rel=1e-9)
        plain.step()
        steps.step()


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_a_weight_may_be_frozen_at_first(name):
    """As the image CNN of the dual path's first stage is; its first step is then a first step."""
    early, late = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    steps = build_optimiser(name, [early, late], 0.1, momentum=0.9)
    for _ in range(2):
        early.grad = torch.ones(3)
        steps.step()
    assert torch.equal(late, torch.ones(3))
    late.grad = torch.ones(3)
    steps.step()
    torch.testing.assert_close(late, torch.full((3,), 0.9))
