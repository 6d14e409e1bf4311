"""The instance loss against its formulas written as loops, and what sampling must not change."""

import itertools
import math

import pytest
import torch
from torch.nn import functional

from models.dual_path.instance import InstanceLoss

CLASSES, DIM = 11, 5


def slow_softmax_loss(weight, feature, label):
    """Eq. 5 and 6 of Zheng et al. 2020 for one sample, in Python floats."""
    logits = [sum(w * f for w, f in zip(row, feature, strict=True)) for row in weight.tolist()]
    highest = max(logits)
    total = sum(math.exp(value - highest) for value in logits)
    return -(logits[label] - highest - math.log(total))


def slow_losses(loss, images, captions, labels):
    means = []
    for features in (images, captions):
        each = [
            slow_softmax_loss(loss.weight, row, label)
            for row, label in zip(features.tolist(), labels.tolist(), strict=True)
        ]
        means.append(sum(each) / len(each))
    return means


def case(seed=0, size=4, dtype=torch.float64, **arguments):
    torch.manual_seed(seed)
    loss = InstanceLoss(CLASSES, DIM, **arguments).to(dtype)
    images, captions = torch.randn(2, size, DIM, dtype=dtype) * 2
    return loss, images, captions, torch.tensor([3, 9, 3, 0])[:size]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_equals_the_formulas(dtype, tolerance):
    for seed in range(5):
        loss, images, captions, labels = case(seed, dtype=dtype)
        found = [value.item() for value in loss(images, captions, labels)]
        assert found == pytest.approx(slow_losses(loss, images, captions, labels), rel=tolerance)


def test_errors_are_the_shares_of_rows_that_another_class_wins():
    for seed in range(5):
        loss, images, captions, labels = case(seed)
        errors = {}
        plain = loss(images, captions, labels)
        assert loss(images, captions, labels, errors) == plain
        sides = images, captions
        won = [(rows @ loss.weight.T).argmax(1) for rows in sides]
        expected = [(best != labels).double().mean().item() for best in won]
        assert list(errors) == ["image_error", "text_error"]
        assert [value.item() for value in errors.values()] == expected
        assert not any(value.requires_grad for value in errors.values())


@pytest.mark.parametrize("form", [{"instance": "sum"}, {"sampled": 4}])
def test_forms_without_errors(form):
    """One classification of both branches, and one among few classes, are not figure 8's."""
    loss, images, captions, labels = case(**form)
    errors = {}
    loss(images, captions, labels, errors)
    assert errors == {}


def test_one_loss_on_the_sum():
    """Eq. 11 and 12: with weights of 1 the two scalars are the loss of the summed features."""
    loss, images, captions, labels = case(instance="sum")
    first, second = loss(images, captions, labels)
    expected, _ = slow_losses(loss, images + captions, captions, labels)
    assert first.item() == second.item()
    assert (first + second).item() == pytest.approx(expected, rel=1e-12)
    apart = sum(slow_losses(loss, images, captions, labels))
    assert abs((first + second).item() - apart) > 0.1


@pytest.mark.parametrize("instance", ["separate", "sum"])
@pytest.mark.parametrize("sampled", [CLASSES - 3, CLASSES, 10 * CLASSES])
def test_sampling_all_classes_is_the_full_softmax(instance, sampled):
    loss, images, captions, labels = case(instance=instance, sampled=sampled)
    found = loss(images, captions, labels)
    sum(found).backward()
    full, *_ = case(instance=instance)
    assert torch.equal(full.weight, loss.weight)
    expected = full(images, captions, labels)
    sum(expected).backward()
    torch.testing.assert_close(torch.stack(found), torch.stack(expected))
    torch.testing.assert_close(loss.weight.grad, full.weight.grad)


@pytest.mark.parametrize("sampled", [1, 2, 5])
def test_the_sampled_sum_of_exponentials_has_the_full_one_as_its_mean(sampled, monkeypatch):
    """Over every set that can be drawn: exp(loss) is the sum divided by the true exponential."""
    loss, images, _, labels = case(sampled=sampled)
    others = [c for c in range(CLASSES) if c not in labels.tolist()]
    each = []
    for negatives in itertools.combinations(others, sampled):
        monkeypatch.setattr(loss, "draw", lambda _, drawn=negatives: torch.tensor(drawn))
        drawn = loss.logits(images, labels)
        each.append(functional.cross_entropy(*drawn, reduction="none").exp())
    full = functional.cross_entropy(images @ loss.weight.T, labels, reduction="none").exp()
    torch.testing.assert_close(torch.stack(each).mean(0), full)


def test_every_set_of_negatives_is_equally_likely():
    torch.manual_seed(0)
    loss = InstanceLoss(6, 2, sampled=2)
    own = torch.tensor([1, 4])
    counts = dict.fromkeys(itertools.combinations((0, 2, 3, 5), 2), 0)
    for _ in range(3000):
        counts[tuple(sorted(loss.draw(own).tolist()))] += 1
    assert min(counts.values()) > 400  # 500 expected, standard deviation 20
    assert max(counts.values()) < 600


def test_draws_continue_from_the_state_of_the_global_generator():
    loss, images, captions, labels = case(sampled=2)
    state = torch.get_rng_state()
    first = [loss(images, captions, labels)[0].item() for _ in range(5)]
    torch.set_rng_state(state)
    assert [loss(images, captions, labels)[0].item() for _ in range(5)] == first
    assert len(set(first)) > 1


@pytest.mark.parametrize("sampled", [0, 4])
def test_inside_autocast(sampled):
    loss, images, captions, labels = case(dtype=torch.float32, sampled=sampled)
    torch.manual_seed(1)
    expected = loss(images, captions, labels)
    torch.manual_seed(1)
    with torch.autocast("cpu", torch.bfloat16):
        inside = loss(images, captions, labels)
    assert inside[0].dtype == torch.float32
    assert [value.item() for value in inside] == [value.item() for value in expected]
