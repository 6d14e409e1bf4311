"""Hubness against loops, scipy's skewness and known worlds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import skew

from pipeline.evaluation.findings import CLASSES, Hubness, occurrences, pairs_table
from pipeline.evaluation.scores import Matrix

DIRECTIONS = ["i2t", "t2i"]
VALUES = st.sampled_from([-1.0, -0.5, 0.0, 0.25]) | st.floats(-1, 1, width=32)


@st.composite
def matrices(draw):
    shape = draw(st.tuples(st.integers(1, 30), st.integers(1, 8)))
    return draw(hnp.arrays(np.float32, shape, elements=VALUES))


def literal_counts(rows, items):
    """rows: one list of scores per query."""
    counts = [0] * items
    for row in rows:
        counts[row.index(max(row))] += 1
    return counts


@pytest.mark.parametrize("direction", DIRECTIONS)
@settings(max_examples=20)
@given(scores=matrices(), block=st.tuples(st.integers(1, 30), st.integers(1, 8)))
def test_equals_loops_in_any_block(direction, scores, block):
    rows = scores if direction == "i2t" else scores.T
    found = Hubness(occurrences(Matrix(scores, block), direction))
    counts = literal_counts(rows.tolist(), rows.shape[1])
    assert found.counts.tolist() == counts
    ends = {"0": (0, 0), "1": (1, 1), ">=2": (2, 99), ">=5": (5, 99), ">=10": (10, 99)}
    within = {name: sum(a <= count <= b for count in counts) for name, (a, b) in ends.items()}
    assert found.table == within
    assert found.largest == max(counts)
    limits = ((0, 0), (1, 1), (2, 4), (5, 9), (10, len(rows)))
    shares = [100 * sum(a <= count <= b for count in counts) / len(counts) for a, b in limits]
    assert found.shares == pytest.approx(shares)
    assert len(CLASSES) == len(limits)
    expected = 0.0 if len(set(counts)) == 1 else skew(counts)
    assert found.skewness == pytest.approx(expected, rel=1e-9, abs=1e-12)


@settings(max_examples=20)
@given(scores=matrices(), data=st.data())
def test_pairs_are_a_gallery_with_every_image_once_per_caption(scores, data):
    images = len(scores)
    copies = data.draw(st.lists(st.integers(1, 4), min_size=images, max_size=images))
    gallery = np.repeat(scores, copies, axis=0)
    found = pairs_table(occurrences(scores, "t2i"), sum(copies))
    assert found == Hubness(occurrences(gallery, "t2i")).table
    assert found["0"] >= sum(copies) - images
