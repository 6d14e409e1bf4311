"""The loss of the dual path against its terms written out (Zheng et al. 2020, eq. 4 to 9)."""

import pytest
import torch
from dual_path_runs import network, stage_2
from losses import pair_loss
from torch import nn
from torch.nn import functional

from models.dual_path.instance import InstanceLoss
from models.dual_path.model import DualPathPhaseConfig
from pipeline.features.split import Batch
from pipeline.training.trainer import Phase

B, K, CLASSES, MARGIN = 6, 8, 9, 1.0
GROUPS = torch.tensor([0, 1, 2, 0, 3, 4])  # rows 0 and 3 are no negatives of each other
LABELS = torch.tensor([8, 1, 2, 8, 3, 4])


@pytest.fixture
def vectors():
    generator = torch.Generator().manual_seed(0)
    return [(3 * torch.randn(B, K, generator=generator)).requires_grad_() for _ in range(2)]


@pytest.fixture
def model():
    made = network()
    made.criterion = nn.ModuleDict()
    made.criterion["ranking"] = pair_loss("sum_margin", MARGIN, 2, "mean")
    made.criterion["instance"] = InstanceLoss(CLASSES, K)
    return made


def loss_of(model, images, captions, weights):
    """As training computes it of embedded images and captions."""
    names = ("ranking", "image_instance", "text_instance")
    section = DualPathPhaseConfig(**stage_2(weights=dict(zip(names, weights, strict=True))))
    batch = Batch(images, captions, GROUPS, GROUPS, labels=LABELS)
    phase = Phase("", 1, None, ranking=model.criterion["ranking"], section=section)
    pairs = model.pairs(images, captions, batch, torch.arange(B))
    return model.loss(images, captions, pairs, batch, phase).value


def terms(model, images, captions):
    """Eq. 4 on cosines, eq. 5 and 6, each by the loss of its own file's tests."""
    cosines = functional.cosine_similarity(images[:, None], captions[None], dim=2)
    ranking = model.criterion["ranking"](cosines, GROUPS)
    return ranking, *model.criterion["instance"](images, captions, LABELS)


@pytest.mark.parametrize(
    "weights", [(0.0, 1.0, 1.0), (1.0, 1.0, 1.0), (1.0, 0.0, 0.0), (0.5, 2.0, 0.0), (2.0, 0.0, 3.0)]
)
def test_weighted_sum_of_three_terms(model, vectors, weights):
    found = loss_of(model, *vectors, weights)
    pairs = zip(weights, terms(model, *vectors), strict=True)
    expected = sum(weight * term for weight, term in pairs)
    torch.testing.assert_close(found, expected)
    gradients = torch.autograd.grad(found, vectors, allow_unused=True)
    wanted = torch.autograd.grad(expected, vectors, allow_unused=True)
    for one, other in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_terms_of_weight_0_are_left_out(model, vectors):
    """They cost nothing, and cannot spoil the sum."""
    whole = loss_of(model, *vectors, (0.0, 1.0, 1.0))
    model.criterion["ranking"].ranking.margin = float("nan")
    torch.testing.assert_close(loss_of(model, *vectors, (0.0, 1.0, 1.0)), whole)
    model.criterion["ranking"] = pair_loss("sum_margin", MARGIN, 2, "mean")
    with torch.no_grad():
        model.criterion["instance"].weight.fill_(float("nan"))
    assert loss_of(model, *vectors, (1.0, 0.0, 0.0)).isfinite()


def test_sums_are_float32_under_autocast(model, vectors):
    images, captions = (v.detach().bfloat16() for v in vectors)
    weights = (1.0, 1.0, 1.0)
    with torch.autocast("cpu", torch.bfloat16):
        found = loss_of(model, images, captions, weights)
    assert found.dtype == torch.float32
    expected = loss_of(model, images.float(), captions.float(), weights)
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
