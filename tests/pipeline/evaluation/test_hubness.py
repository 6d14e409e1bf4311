"""Hubness against loops, scipy's skewness and known worlds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import skew

from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.hubness import CLASSES, Hubness, pairs_table
from pipeline.evaluation.nearest import occurrences
from pipeline.runtime.errors import WorkbenchError

DIRECTIONS = ["i2t", "t2i"]
VALUES = st.sampled_from([-1.0, -0.5, 0.0, 0.25]) | st.floats(-1, 1, width=32)


@st.composite
def matrices(draw):
    shape = draw(st.tuples(st.integers(1, 30), st.integers(1, 8)))
    return draw(hnp.arrays(np.float32, shape, elements=VALUES))


def literal_counts(rows, items, k):
    """rows: one list of scores per query."""
    counts = [0] * items
    for row in rows:
        nearest = sorted(range(items), key=lambda item: (-row[item], item))[:k]
        for item in nearest:
            counts[item] += 1
    return counts


@pytest.mark.parametrize("direction", DIRECTIONS)
@settings(max_examples=60)
@given(scores=matrices(), data=st.data())
def test_equals_loops(direction, scores, data):
    rows = scores if direction == "i2t" else scores.T
    k = data.draw(st.integers(1, rows.shape[1]))
    found = Hubness(occurrences(scores, direction, k))
    counts = literal_counts(rows.tolist(), rows.shape[1], k)
    assert found.counts.tolist() == counts
    assert found.table == {
        "0": sum(count == 0 for count in counts),
        "1": sum(count == 1 for count in counts),
        ">=2": sum(count >= 2 for count in counts),
        ">=5": sum(count >= 5 for count in counts),
        ">=10": sum(count >= 10 for count in counts),
    }
    assert found.largest == max(counts)
    limits = ((0, 0), (1, 1), (2, 4), (5, 9), (10, len(rows)))
    shares = [100 * sum(a <= count <= b for count in counts) / len(counts) for a, b in limits]
    assert found.shares == pytest.approx(shares)
    assert len(CLASSES) == len(limits)
    expected = 0.0 if len(set(counts)) == 1 else skew(counts)
    assert found.skewness == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("k", [1, 3])
def test_equals_loops_in_many_blocks(direction, k):
    scores = np.random.default_rng(0).integers(0, 40, (900, 1300)).astype(np.float32)
    rows = scores if direction == "i2t" else scores.T
    found = occurrences(scores, direction, k)
    order = np.argsort(-rows, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(found, np.bincount(order.ravel(), minlength=rows.shape[1]))


@settings(max_examples=60)
@given(scores=matrices(), data=st.data())
def test_pairs_are_a_gallery_with_every_image_once_per_caption(scores, data):
    images = len(scores)
    copies = data.draw(st.lists(st.integers(1, 4), min_size=images, max_size=images))
    gallery = np.repeat(scores, copies, axis=0)
    found = pairs_table(occurrences(scores, "t2i"), sum(copies))
    assert found == Hubness(occurrences(gallery, "t2i")).table
    assert found["0"] >= sum(copies) - images


def test_one_item_for_all_is_the_largest_hub():
    scores = np.zeros((3, 12), np.float32)
    scores[1] = 0.5
    found = Hubness(occurrences(scores, "t2i"))
    assert found.counts.tolist() == [0, 12, 0]
    assert found.largest == 12
    assert found.table == {"0": 2, "1": 0, ">=2": 1, ">=5": 1, ">=10": 1}


def test_scores_that_are_all_equal_go_to_the_first_items():
    found = occurrences(np.zeros((4, 5), np.float32), "i2t", k=2)
    assert found.tolist() == [4, 4, 0, 0, 0]


def test_a_perfect_matching_has_no_hub():
    found = Hubness(occurrences(np.eye(6, dtype=np.float32), "i2t"))
    assert found.table == {"0": 0, "1": 6, ">=2": 0, ">=5": 0, ">=10": 0}
    assert found.skewness == 0


@pytest.mark.parametrize("name", ["inverted_softmax", "csls", "dual_softmax", "sinkhorn"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_criteria_lower_the_skewness(name, direction):
    random = np.random.default_rng(1)
    images, captions = random.standard_normal((60, 24)), random.standard_normal((300, 24))
    images, captions = images + 0.6, captions + 0.6  # a common direction makes hubs
    images, captions = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (images, captions))
    scores = (images @ captions.T).astype(np.float32)
    after = Criterion(name).rescored(scores, direction)
    found, plain = (Hubness(occurrences(x, direction, 5)) for x in (after, scores))
    assert found.skewness < plain.skewness - 0.1


@pytest.mark.parametrize(
    ("direction", "k", "gallery"), [("i2t", 4, 3), ("t2i", 3, 2), ("i2t", 0, 3)]
)
def test_k_larger_than_the_gallery_is_an_error(direction, k, gallery):
    with pytest.raises(WorkbenchError, match=f"k = {k}: .*allowed are 1 to {gallery}"):
        occurrences(np.zeros((2, 3), np.float32), direction, k)


def test_nan_is_an_error():
    scores = np.zeros((2, 3), np.float32)
    scores[1, 2] = np.nan
    with pytest.raises(WorkbenchError, match="image 1 and caption 2"):
        occurrences(scores, "i2t")
