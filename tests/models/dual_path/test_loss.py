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


def made(ranking="sum_margin", **options):
    torch.manual_seed(1)
    return DualPathLoss(pair_loss(ranking, MARGIN, 2, "mean"), InstanceLoss(CLASSES, K, **options))


def ranking_term(images, captions, hardest=B):
    """Eq. 4 in loops, its mean over the queries of each direction."""
    total = torch.zeros(())
    cosines = functional.cosine_similarity(images[:, None], captions[None], dim=2)
    for a in range(B):
        by_image, by_caption = [], []
        for n in range(B):
            if GROUPS[n] != GROUPS[a]:
                by_image.append((MARGIN - cosines[a, a] + cosines[a, n]).clamp(min=0))
                by_caption.append((MARGIN - cosines[a, a] + cosines[n, a]).clamp(min=0))
        for hinges in (by_image, by_caption):
            total = total + torch.stack(sorted(hinges, reverse=True)[:hardest]).sum()
    return total / B


def instance_term(loss, vectors):
    """Eq. 5 and 6: softmax over all classes of vectors as they are."""
    logits = vectors @ loss.instance.weight.T
    return torch.stack([logits[i].logsumexp(0) - logits[i, LABELS[i]] for i in range(B)]).mean()


@pytest.mark.parametrize(
    "weights", [(0.0, 1.0, 1.0), (1.0, 1.0, 1.0), (1.0, 0.0, 0.0), (0.5, 2.0, 0.0), (2.0, 0.0, 3.0)]
)
def test_weighted_sum_of_three_terms(vectors, weights):
    loss = made()
    found = loss(*vectors, GROUPS, LABELS, weights)
    terms = [ranking_term(*vectors), *(instance_term(loss, v) for v in vectors)]
    expected = sum(weight * term for weight, term in zip(weights, terms, strict=True))
    torch.testing.assert_close(found, expected)
    gradients = torch.autograd.grad(found, vectors, allow_unused=True)
    wanted = torch.autograd.grad(expected, vectors, allow_unused=True)
    for one, other in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_hardest_negatives_alone_count_where_the_ranking_loss_says_so(vectors):
    found = made("knn_margin")(*vectors, GROUPS, LABELS, (1.0, 0.0, 0.0))
    torch.testing.assert_close(found, ranking_term(*vectors, hardest=2))


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
