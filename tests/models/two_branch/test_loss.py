"""Eq. 5 of Wang et al. 2016 against loops over every triplet, and its limits."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from losses import l2_normalise, slow_direction, structure_loss

from models import losses
from models.ranking import LOSSES

WEIGHTS = ("image_to_sentence", "sentence_to_image", "image_image", "sentence_sentence")
SIZES = ((0, 10_000), (1, 6), (1, 9), (1, 8))  # a seed, images, captions, groups
ALL = dict(zip(WEIGHTS, (1.0, 2.0, 0.3, 0.2), strict=True))


def slow_term(anchors, anchor_groups, others, other_groups, within, name, margin, k, reduction):
    """One sum of eq. 5: a ranking loss on minus distances, every pair (i, j) of one group."""
    scores = [[-math.dist(anchor, other) for other in others] for anchor in anchors]
    same = [[group == other for other in other_groups] for group in anchor_groups]
    pairs = [
        [alike and not (within and i == j) for j, alike in enumerate(row)]
        for i, row in enumerate(same)
    ]
    negatives = [[not alike for alike in row] for row in same]
    total = slow_direction(name, scores, pairs, negatives, margin, k)
    return total / max(sum(map(sum, pairs)), 1) if reduction == "mean" else total


def slow_loss(batch, name, margin, k, structure_k, weights, reduction):
    images, captions, image_groups, caption_groups = (part.tolist() for part in batch)
    x, y = (images, image_groups), (captions, caption_groups)
    across, inside = (name, margin, k, reduction), ("knn_margin", margin, structure_k, reduction)
    terms = {
        "image_to_sentence": (*x, *y, False, *across),
        "sentence_to_image": (*y, *x, False, *across),
        "image_image": (*x, *x, True, *inside),
        "sentence_sentence": (*y, *y, True, *inside),
    }
    return sum(weights[term] * slow_term(*arguments) for term, arguments in terms.items())


def random_batch(seed, images=5, captions=8, groups=3, dtype=torch.float64):
    """Unit rows and groups; with few groups, several images and several captions share one."""
    generator, sizes = torch.Generator().manual_seed(seed), (images, captions)
    rows = [l2_normalise(count, 3, generator, dtype) for count in sizes]
    return rows + [torch.randint(groups, (count,), generator=generator) for count in sizes]


def gradients(loss, batch):
    leaves = [rows.clone().requires_grad_() for rows in batch[:2]]
    value = loss(*leaves, *batch[2:])
    value.backward()
    # a view that no term looks at has none
    return value.item(), [torch.zeros(0) if leaf.grad is None else leaf.grad for leaf in leaves]


@given(
    drawn=st.tuples(*(st.integers(low, high) for low, high in SIZES)),
    name=st.sampled_from(list(LOSSES)),
    reduction=st.sampled_from(["sum", "mean"]),
    margin=st.floats(0.01, 2),
    k=st.integers(1, 10),
    structure_k=st.integers(1, 10),
    dtype=st.sampled_from([(torch.float64, 1e-9), (torch.float32, 1e-5)]),
)
@settings(max_examples=80)
def test_equals_the_triple_loop(drawn, name, reduction, margin, k, structure_k, dtype):
    """Among them no negatives, no pairs, and fewer negatives than k."""
    batch = random_batch(*drawn, dtype=dtype[0])
    loss = structure_loss(name, margin, k, structure_k, **ALL, reduction=reduction)
    value, slopes = gradients(loss, batch)
    expected = slow_loss(batch, name, margin, k, structure_k, ALL, reduction)
    assert value == pytest.approx(expected, rel=dtype[1], abs=dtype[1])
    assert all(torch.isfinite(slope).all() for slope in slopes)


@pytest.mark.parametrize("name", LOSSES)
def test_blocks_change_nothing(name, monkeypatch):
    batch = random_batch(4, 7, 12)
    whole = gradients(structure_loss(name, 0.4, 2, 3, **ALL), batch)
    for size in (1, 25):
        monkeypatch.setattr(losses, "BLOCK", size)
        blocks = gradients(structure_loss(name, 0.4, 2, 3, **ALL), batch)
        assert blocks[0] == pytest.approx(whole[0], rel=1e-12)
        torch.testing.assert_close(blocks[1], whole[1], rtol=0, atol=1e-12)


def test_a_term_of_weight_zero_is_not_computed():
    """NaN times 0 would be NaN."""
    images, captions, *groups = random_batch(1)
    nan = torch.full_like
    weights = dict.fromkeys(WEIGHTS, 0.0)
    sentences = structure_loss("sum_margin", 0.4, **weights | {"sentence_sentence": 1.0})
    assert sentences(nan(images, math.nan), captions, *groups).item() > 0
    pictures = structure_loss("sum_margin", 0.4, **weights | {"image_image": 1.0})
    assert pictures(images, nan(captions, math.nan), *groups).item() > 0


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("point", [(1.0, 0.0, 0.0), (0.6, 0.64, 0.48)])
def test_collapsed_embeddings_have_finite_gradients(name, dtype, point):
    """All distances are 0, where the gradient of a square root is infinite.

    With the first point to the last bit, with the second up to rounding.
    """
    batch = random_batch(5, dtype=dtype)
    batch[0][:], batch[1][:] = torch.tensor(point), torch.tensor(point)
    value, slopes = gradients(structure_loss(name, 0.4, 2, 3, **ALL), batch)
    expected = slow_loss(batch, name, 0.4, 2, 3, ALL, "sum")  # a margin per triplet
    assert value == pytest.approx(expected, rel=1e-2)
    for slope in slopes:
        assert torch.isfinite(slope).all()


def test_captions_of_the_same_words_do_not_disturb_the_others():
    """Two coincident captions of one image: the ascent stays of the order of the distances'."""
    batch = random_batch(7, dtype=torch.float32)
    batch[3][:2] = 0
    batch[1][1] = batch[1][0]
    rows = [part.clone().requires_grad_() for part in batch[:2]]
    unit = [torch.nn.functional.normalize(part, dim=1) for part in rows]
    structure_loss("sum_margin", 0.4, **ALL)(*unit, *batch[2:]).backward()
    assert all(part.grad.abs().max() < 100 for part in rows)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_at_least_float32_also_inside_autocast(name, dtype):
    batch = random_batch(8, dtype=dtype)
    loss = structure_loss(name, 0.4, 2, 3, **ALL)
    with torch.autocast("cpu", torch.bfloat16):
        inside = loss(*batch)
    assert inside.dtype == torch.float32
    assert inside.item() == loss(batch[0].float(), batch[1].float(), *batch[2:]).item()
