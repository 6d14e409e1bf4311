"""Every registered ranking loss against the loops in its own file, and what all must hold to."""

import importlib
import inspect

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from losses import TEMPERATURE, pair_loss, slow_direction, slow_pairs, takes_margin

from models.losses.infonce import LARGEST_SCALE
from models.ranking import LOSSES, loss_class, make_loss, settings_of, warms_up

DTYPES = [(torch.float64, 1e-10), (torch.float32, 1e-5), (torch.bfloat16, 1e-5)]


def random_case(seed, size=7, images=4, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(size, size, generator=generator, dtype=torch.float64) * 2 - 1
    groups = torch.randint(images, (size,), generator=generator)
    return scores.to(dtype), groups


def random_masks(seed, rows, columns):
    """Pairs and negatives that exclude each other, some entries neither."""
    generator = torch.Generator().manual_seed(seed)
    kind = torch.randint(3, (rows, columns), generator=generator)
    return kind == 0, kind == 1


def test_every_loss_has_its_file_its_settings_and_its_reference():
    assert list(LOSSES.entries()) == list(LOSSES)
    for name in LOSSES:
        reference = importlib.import_module(LOSSES.module(name)).reference
        read = list(inspect.signature(loss_class(name)).parameters)
        assert read == ["margin"] * takes_margin(name) + list(settings_of(name))
        given = ["scores", "pairs", "negatives"]
        assert list(inspect.signature(reference).parameters) == given + read
        assert loss_class(name).warms_up is warms_up(name)


@pytest.mark.parametrize("name", LOSSES)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 8), st.integers(1, 9))
@settings(max_examples=20)
def test_one_direction_equals_its_reference(name, seed, rows, columns, k):
    """Any pairs and negatives: several positives an anchor, none, no negatives, neither."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(rows, columns, generator=generator, dtype=torch.float64) * 2 - 1
    masks = random_masks(seed, rows, columns)
    loss = make_loss(name, margin=0.3, k=k, temperature=TEMPERATURE).double().eval()
    leaf = scores.clone().requires_grad_()
    value = loss(leaf, *masks)
    expected = slow_direction(name, scores.tolist(), *(m.tolist() for m in masks), margin=0.3, k=k)
    assert value.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    value.backward()
    assert torch.isfinite(leaf.grad).all()
    left_out = ~(masks[0] | masks[1])
    assert not leaf.grad[left_out].any()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_a_batch_of_pairs_equals_the_loop(name, reduction, dtype, tolerance):
    for seed in range(10):
        scores, groups = random_case(seed, dtype=dtype)
        leaf = scores.requires_grad_()
        loss = pair_loss(name, reduction=reduction).to(torch.promote_types(dtype, torch.float32))(
            leaf, groups
        )
        expected = slow_pairs(scores.tolist(), groups.tolist(), name, reduction=reduction)
        assert loss.item() == pytest.approx(expected, rel=tolerance, abs=tolerance)
        loss.backward()
        assert leaf.grad.dtype == dtype
        assert torch.isfinite(leaf.grad).all()


@pytest.mark.parametrize("kind", ["computed", "related"])
@pytest.mark.parametrize("name", LOSSES)
def test_pairs_that_are_left_out_equal_the_loop(name, kind):
    """Pairs without a score, and related ones; groups without a negative are among them."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        scores = torch.rand(7, 7, generator=generator, dtype=torch.float64, requires_grad=True)
        computed = torch.rand(7, 7, generator=generator) < 0.4
        computed.fill_diagonal_(True)
        groups = torch.randint(3, (7,), generator=generator)
        masks = {kind: computed if kind == "computed" else ~computed}
        loss = pair_loss(name, 0.3).double()(scores, groups, **masks)
        expected = slow_pairs(scores.tolist(), groups.tolist(), name, 0.3, computed=computed)
        assert loss.item() == pytest.approx(expected, rel=1e-9)
        loss.backward()
        assert not scores.grad[~computed].any()
        every, mean = torch.ones_like(computed), pair_loss(name, 0.3, reduction="mean").double()
        assert mean(scores, groups, every).item() == mean(scores, groups).item()


def test_losses_of_the_hardest_negatives_alone_warm_up():
    """Trained by them from the beginning a model may collapse; the sum and InfoNCE may not."""
    assert {name for name in LOSSES if warms_up(name)} == {"knn_margin", "max_margin"}


@pytest.mark.parametrize("name", ["sum_margin", "max_margin", "knn_margin"])
def test_a_hinge_of_exactly_0_has_no_gradient(name):
    scores = torch.tensor([[0.5, 0.25], [0.25, 0.5]], requires_grad=True)
    loss = pair_loss(name, margin=0.25)(scores, torch.arange(2))
    loss.backward()
    assert loss.item() == 0
    assert not scores.grad.any()


@pytest.mark.parametrize("name", LOSSES)
def test_scores_of_half_precision_are_summed_in_float32(name):
    scores, groups = random_case(2, dtype=torch.float16)
    loss = pair_loss(name)(scores, groups)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(pair_loss(name)(scores.float(), groups).item(), rel=1e-6)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_gradcheck(name, reduction):
    scores, groups = random_case(3)
    loss = pair_loss(name, reduction=reduction).double()
    assert torch.autograd.gradcheck(lambda s: loss(s, groups), scores.requires_grad_())


@pytest.mark.parametrize("name", LOSSES)
def test_inside_autocast(name):
    scores, groups = random_case(1, dtype=torch.float32)
    loss = pair_loss(name)
    with torch.autocast("cpu", torch.bfloat16):
        inside = loss(scores, groups)
    assert inside.dtype == torch.float32
    assert inside.item() == loss(scores, groups).item()


@pytest.mark.parametrize("name", LOSSES)
def test_a_score_that_is_no_number_shows(name):
    scores, groups = random_case(1)
    scores[2, 2] = float("nan")
    assert torch.isnan(pair_loss(name)(scores, groups))


def test_random_margin_draws_each_negative_equally_often_and_draws_on_from_its_state():
    """Scores that name their column; the pair's is 0 and column 2 is neither (eq. 4)."""
    scores, masks = torch.tensor([[0.0, 1.0, 2.0, 3.0, 4.0]]), torch.eye(5, dtype=torch.bool)
    pairs, negatives = masks[:1], ~(masks[0] | masks[2])[None]
    loss = make_loss("random_margin", margin=1.0)
    values = [loss(scores, pairs, negatives).item() for _ in range(600)]
    counts = [values.count(column + 1.0) for column in range(5)]
    assert counts[0] == counts[2] == 0
    assert all(150 < count < 250 for count in (counts[1], *counts[3:]))
    continued = make_loss("random_margin", margin=1.0)
    continued.load_state_dict(loss.state_dict())
    following = [loss(scores, pairs, negatives).item() for _ in range(20)]
    assert following == [continued(scores, pairs, negatives).item() for _ in range(20)]


def test_infonce_is_cross_entropy_over_the_batch():
    """Without captions of the same image it is twice CLIP's loss, by torch's own cross-entropy."""
    scores, _ = random_case(2)
    truth, logits = torch.arange(7), scores / TEMPERATURE
    clip = sum(torch.nn.functional.cross_entropy(side, truth) for side in (logits, logits.T)) / 2
    loss = pair_loss("infonce", reduction="mean").double()(scores, truth)
    assert loss.item() == pytest.approx(2 * clip.item(), rel=1e-9)


def test_the_temperature_is_learnt_within_its_bounds():
    """Separated pairs want a lower temperature; its inverse stops at 100 (CLIP, section 2.5)."""
    loss = pair_loss("infonce", temperature=0.011)
    optimiser = torch.optim.SGD(loss.parameters(), 1e6)
    (scale,) = loss.parameters()
    before = scale.item()
    scores, truth = 0.01 * torch.eye(5), torch.arange(5)
    for _ in range(2):
        optimiser.zero_grad()
        loss(scores, truth).backward()
        optimiser.step()
    loss(scores, truth)
    assert scale.item() > before
    assert scale.exp().item() == pytest.approx(LARGEST_SCALE)
