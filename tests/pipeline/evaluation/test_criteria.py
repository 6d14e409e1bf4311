"""Criteria against literal loops in float64, invariances, and models that must not look good."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from ranking_cases import measure_direction, no_better

from pipeline.evaluation.criteria import CRITERIA, single_query_criteria
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.figures import chance_level, summarise
from pipeline.evaluation.truth import group_codes
from pipeline.runtime.errors import WorkbenchError

DIRECTIONS = ["i2t", "t2i"]
TRANSDUCTIVE = [name for name in CRITERIA if Criterion(name).transductive]
SOFT = [name for name in TRANSDUCTIVE if not CRITERIA.constant(name, "WHOLE_MATRIX")]
COMPARED = [name for name in CRITERIA if hasattr(CRITERIA.imported(name), "reference")]
TIED = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.25, 3.0])
COSINES = st.floats(-1, 1, width=32)


@st.composite
def matrices(draw, values=TIED | COSINES):
    shape = draw(st.tuples(st.integers(1, 7), st.integers(1, 9)))
    return draw(hnp.arrays(np.float32, shape, elements=values))


def rescored(scores, name, direction, **values):
    k = min(10, *scores.shape)
    return Criterion(name, **{"k": k, **values}).rescored(scores, direction)


def close(found, expected, scale=1.0):
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * scale)


def test_a_single_query_is_ranked_by_all_that_do_not_share_items_out_among_queries():
    """A query more would take its share from the others: docs/serve.md."""
    assert set(CRITERIA) - set(single_query_criteria()) == {"sinkhorn", "hungarian"}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", COMPARED)
@settings(max_examples=20)
@given(scores=matrices(), beta=st.sampled_from([1.0, 30.0, 100.0]), data=st.data())
def test_every_criterion_equals_its_reference(name, direction, scores, beta, data):
    k = data.draw(st.integers(1, min(scores.shape)))
    settings = Criterion(name, beta=beta, k=k)
    rows = scores if direction == "i2t" else scores.T  # queries in rows
    expected = CRITERIA.imported(name).reference(rows.astype(float).tolist(), settings)
    found = settings.rescored(scores, direction)
    close(found if direction == "i2t" else found.T, expected, beta)


def test_only_assignments_are_tested_without_a_reference():
    """They have their own tests: test_assignment.py."""
    assert set(CRITERIA) - set(COMPARED) <= {"sinkhorn", "hungarian"}
    assert next(iter(CRITERIA.entries())) == "naive"


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", CRITERIA)
def test_many_blocks_give_what_one_gives(name, direction, monkeypatch):
    scores = np.random.default_rng(3).standard_normal((17, 40)).astype(np.float32)
    whole = rescored(scores, name, direction)
    for block in ((1, 1), (5, 7), (17, 3), (3, 64)):
        monkeypatch.setattr("pipeline.evaluation.scores.BLOCK", block)
        close(rescored(scores, name, direction), whole, 30)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", TRANSDUCTIVE)
def test_read_only_and_turned_matrices_are_taken_and_left_alone(name, direction):
    scores = np.random.default_rng(4).uniform(-1, 1, (12, 30)).astype(np.float32)
    turned = np.asfortranarray(scores)
    turned.flags.writeable = False
    found = rescored(turned, name, direction)
    np.testing.assert_array_equal(found, rescored(scores, name, direction))
    assert not np.shares_memory(found, turned)
    assert found.flags.c_contiguous


@pytest.mark.parametrize("name", CRITERIA)
def test_turning_the_matrix_swaps_the_directions(name):
    scores = np.random.default_rng(7).uniform(-1, 1, (14, 14)).astype(np.float32)
    found = rescored(scores.T.copy(), name, "i2t", iterations=200).T
    close(found, rescored(scores, name, "t2i", iterations=200), 30)


def collapsed(name, scores, groups):
    measured = {
        way: measure_direction(rescored(scores, name, way), *group_codes(*groups), way)
        for way in DIRECTIONS
    }
    no_better(summarise(measured), chance_level(*groups))


@pytest.mark.parametrize("name", CRITERIA)
@settings(max_examples=20)
@given(
    counts=st.lists(st.integers(1, 6), min_size=1, max_size=30),
    value=st.sampled_from([-1e30, -1.0, -0.0, 0.1, 0.99999994, 2.0, 1e30]),
)
def test_constant_scores_never_beat_chance(name, counts, value):
    groups = np.arange(len(counts)), np.repeat(np.arange(len(counts)), counts)
    collapsed(name, np.full((len(groups[0]), len(groups[1])), value, np.float32), groups)


@pytest.mark.parametrize("name", SOFT)
@pytest.mark.parametrize("shape", [(3, 7), (37, 101), (64, 517), (200, 1000), (613, 1025)])
def test_ties_between_equal_items_are_kept(name, shape):
    """One branch collapsed: all captions alike, or all images; rounding must not order them."""
    random = np.random.default_rng(8)
    per_image = random.uniform(-1, 1, (shape[0], 1)).astype(np.float32)
    found = rescored(np.repeat(per_image, shape[1], axis=1), name, "i2t")
    assert (found == found[:, :1]).all()
    per_caption = random.uniform(-1, 1, (1, shape[1])).astype(np.float32)
    found = rescored(np.repeat(per_caption, shape[0], axis=0), name, "t2i")
    assert (found == found[:1]).all()


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", CRITERIA)
def test_what_is_not_finite_is_an_error(name, value, direction):
    scores = np.zeros((12, 30), np.float32)
    scores[3, 4] = value
    with pytest.raises(WorkbenchError, match="of image 3 and caption 4"):
        Criterion(name).rescored(scores, direction)


@pytest.mark.parametrize("name", TRANSDUCTIVE)
def test_scores_beyond_the_range_on_the_way_are_an_error(name):
    scores = np.full((3, 4), 2e38, np.float32)
    with pytest.raises(WorkbenchError, match=r"2e\+38 with inference.beta = 30"):
        rescored(scores, name, "i2t")
    large = np.array([[1e36, -1e36, 0.0], [-1e36, 3.0, 1e36]], np.float32)
    assert np.isfinite(rescored(large, name, "i2t")).all()


@pytest.mark.parametrize(("shape", "k", "allowed"), [((3, 8), 4, 3), ((8, 3), 10, 3)])
def test_k_larger_than_the_set_is_an_error(shape, k, allowed):
    with pytest.raises(WorkbenchError, match=rf"inference.k = {k}: .*allowed are 1 to {allowed}"):
        Criterion("csls", k=k).rescored(np.zeros(shape, np.float32), "i2t")
