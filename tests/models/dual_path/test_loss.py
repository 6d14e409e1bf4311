"""The loss of the dual path against its terms written out (Zheng et al. 2020, eq. 4 to 9)."""

import pytest
import torch
from losses import pair_loss
from torch.nn import functional

from models.dual_path.instance import InstanceLoss
from models.dual_path.loss import DualPathLoss

B, K, CLASSES, MARGIN = 6, 5, 9, 1.0
GROUPS = torch.tensor([0, 1, 2, 0, 3, 4])  # rows 0 and 3 are no negatives of each other
LABELS = torch.tensor([8, 1, 2, 8, 3, 4])


@pytest.fixture
def vectors():
    generator = torch.Generator().manual_seed(0)
    return [(3 * torch.randn(B, K, generator=generator)).requires_grad_() for _ in range(2)]


def made():
    torch.manual_seed(1)
    return DualPathLoss(pair_loss("sum_margin", MARGIN, 2, "mean"), InstanceLoss(CLASSES, K))


def terms(loss, images, captions):
    """Eq. 4 on cosines, eq. 5 and 6, each by the loss of its own file's tests."""
    cosines = functional.cosine_similarity(images[:, None], captions[None], dim=2)
    return loss.ranking(cosines, GROUPS), *loss.instance(images, captions, LABELS)


@pytest.mark.parametrize(
    "weights", [(0.0, 1.0, 1.0), (1.0, 1.0, 1.0), (1.0, 0.0, 0.0), (0.5, 2.0, 0.0), (2.0, 0.0, 3.0)]
)
def test_weighted_sum_of_three_terms(vectors, weights):
    loss = made()
    found = loss(*vectors, GROUPS, LABELS, weights)
    pairs = zip(weights, terms(loss, *vectors), strict=True)
    expected = sum(weight * term for weight, term in pairs)
    torch.testing.assert_close(found, expected)
    gradients = torch.autograd.grad(found, vectors, allow_unused=True)
    wanted = torch.autograd.grad(expected, vectors, allow_unused=True)
    for one, other in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_terms_of_weight_0_are_left_out(vectors):
    """They cost nothing, and cannot spoil the sum."""
    broken = made()
    with torch.no_grad():
        broken.instance.weight.fill_(float("nan"))
    assert broken(*vectors, GROUPS, LABELS, (1.0, 0.0, 0.0)).isfinite()
    found = made()(*vectors, GROUPS, LABELS, (0.0, 1.0, 1.0))
    torch.testing.assert_close(found, broken_ranking()(*vectors, GROUPS, LABELS, (0.0, 1.0, 1.0)))


def broken_ranking():
    loss = made()
    loss.ranking.ranking.margin = float("nan")
    return loss


def test_sums_are_float32_under_autocast(vectors):
    images, captions = (v.detach().bfloat16() for v in vectors)
    weights = (1.0, 1.0, 1.0)
    with torch.autocast("cpu", torch.bfloat16):
        found = made()(images, captions, GROUPS, LABELS, weights)
    assert found.dtype == torch.float32
    expected = made()(images.float(), captions.float(), GROUPS, LABELS, weights)
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
