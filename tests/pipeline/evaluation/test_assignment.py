"""Assignments against all permutations, plans against their marginals and a literal form."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pipeline.evaluation import assignment as module
from pipeline.evaluation.assignment import assigned_scores, assignment
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.figures import chance_level
from pipeline.evaluation.ranks import retrieval_ranks
from pipeline.runtime.errors import WorkbenchError

SMALL = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.75]) | st.floats(-1, 1, width=32)


@st.composite
def matrices(draw, images=4, captions=6):
    shape = draw(st.tuples(st.integers(1, images), st.integers(1, captions)))
    return draw(hnp.arrays(np.float32, shape, elements=SMALL))


def best_total(scores):
    """The largest total of all ways to give every caption an image, none more than its share."""
    if len(scores) > len(scores[0]):
        scores = scores.T
    images, captions = scores.shape
    slots = np.repeat(np.arange(images), -(-captions // images))
    choices = set(itertools.permutations(slots, captions))
    return max(
        sum(float(scores[image, caption]) for caption, image in enumerate(choice))
        for choice in choices
    )


@settings(max_examples=30)
@given(matrices())
def test_assignment_is_the_best_of_all(scores):
    image, caption = assignment(scores)
    images, captions = scores.shape
    assert len(image) == max(images, captions)
    assert np.bincount(image).max() <= -(-captions // images)
    assert np.bincount(caption).max() <= -(-images // captions)
    assert len(set(zip(image.tolist(), caption.tolist(), strict=True))) == len(image)
    total = scores[image, caption].astype(float).sum()
    assert total == pytest.approx(best_total(scores), abs=1e-6)


@pytest.mark.parametrize("queries", [0, 1])
@settings(max_examples=20)
@given(scores=matrices(7, 9))
def test_assigned_items_come_first_in_the_order_of_scores(queries, scores):
    image, caption = assignment(scores)
    assigned = np.zeros(scores.shape, bool)
    assigned[image, caption] = True
    found = assigned_scores(scores, queries)
    if queries == 1:
        scores, assigned, found = scores.T, assigned.T, found.T
    for line, chosen, ranked in zip(scores, assigned, found, strict=True):
        first = np.array([score in line[chosen] for score in line])
        for a, b in itertools.product(range(len(line)), repeat=2):
            before = (first[a], line[a]) > (first[b], line[b])
            assert (ranked[a] > ranked[b]) == before


def test_order_survives_where_adding_a_constant_would_round_it_away():
    close_by = np.nextafter(np.float32(0.5), np.float32(1))
    scores = np.array([[0.5, close_by, 0.9, 0.8], [0.1, 0.2, 0.9, 0.9]], np.float32)
    found = assigned_scores(scores, queries=0)
    assert found[0, 1] > found[0, 0] > found[0, 2] > found[0, 3]
    assert len(np.unique(assigned_scores(scores * np.float32(1e30), queries=0)[0])) == 4


@pytest.mark.parametrize("axis", [0, 1])
def test_a_branch_that_collapsed_is_given_no_true_pairs(axis):
    """All assignments are equally good then; choosing by place would find the truth."""
    size = np.array([40, 200])
    shape = np.where(np.arange(2) == axis, 1, size)
    values = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    scores = np.broadcast_to(values, size)
    groups = np.arange(40), np.repeat(np.arange(40), 5)
    chance = chance_level(*groups)
    for queries, direction in enumerate(("i2t", "t2i")):
        found = retrieval_ranks(assigned_scores(scores, queries), *groups)
        hits = 100 * (getattr(found, direction) == 1).mean()
        assert hits <= chance[direction]["r1"] + 10  # 100 when chosen by place


def test_more_pairs_than_can_be_assigned_are_refused(monkeypatch):
    scores = np.zeros((4, 10), np.float32)
    monkeypatch.setattr(module, "PAIR_LIMIT", 120)
    Criterion("hungarian").rescored(scores, "i2t")
    monkeypatch.setattr(module, "PAIR_LIMIT", 119)
    with pytest.raises(WorkbenchError, match=r"4 images x 10 captions with 3 each are 120 pairs"):
        Criterion("hungarian").rescored(scores, "i2t")


def literal_plan(scores, beta, iterations):
    """Scaling of the kernel, in float64 and not in the log domain."""
    kernel = np.exp(beta * scores.astype(float))
    images, captions = kernel.shape
    a, b = np.ones(images), np.ones(captions)
    for _ in range(iterations):
        for image in range(images):
            a[image] = 1 / images / sum(kernel[image, t] * b[t] for t in range(captions))
        for caption in range(captions):
            b[caption] = 1 / captions / sum(kernel[i, caption] * a[i] for i in range(images))
    return np.log(a[:, None] * kernel * b)


def plan_of(scores, beta, iterations):
    return Criterion("sinkhorn", beta=beta, iterations=iterations).rescored(scores, "i2t")


@settings(max_examples=30)
@given(matrices(), st.sampled_from([1.0, 30.0]), st.integers(1, 6))
def test_plan_is_the_scaled_kernel(scores, beta, iterations):
    found = plan_of(scores, beta, iterations)
    expected = literal_plan(scores, beta, iterations)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * beta)
