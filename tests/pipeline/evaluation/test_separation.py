"""The indicator S against a loop over all pairs, and at its two ends."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.evaluation.findings import separation
from pipeline.evaluation.scores import Matrix
from pipeline.runtime.errors import WorkbenchError


def slow_overlap(scores, image_groups, caption_groups, bins, low=-1.0, high=1.0):
    """Eq. 10 literally: P and Q from a loop over the pairs, then the integral of the smaller."""
    true, others, width = [0] * bins, [0] * bins, (high - low) / bins
    edges = [low + width * n for n in range(1, bins)]
    for i, image in enumerate(image_groups):
        for t, caption in enumerate(caption_groups):
            bin_number = sum(float(scores[i, t]) >= edge for edge in edges)
            (true if image == caption else others)[bin_number] += 1
    p = [count / sum(true) / width for count in true]
    q = [count / sum(others) / width for count in others]
    return sum(min(a, b) * width for a, b in zip(p, q, strict=True)), true, others


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    images=st.integers(2, 6),
    bins=st.sampled_from([2, 8, 64]),
    block=st.tuples(st.integers(1, 7), st.integers(1, 10)),
)
def test_equals_a_loop_over_all_pairs(seed, images, bins, block):
    random = np.random.default_rng(seed)
    # quarters of a bin are exact in float32, so that no edge is a matter of rounding
    scores = (random.integers(-2 * bins, 2 * bins + 1, (images, 9)) / (2 * bins)).astype(np.float32)
    owners = np.concatenate([np.arange(images), random.integers(0, images, 9 - images)])
    found = separation(Matrix(scores, block), np.arange(images), owners, bins)
    overlap, true, others = slow_overlap(scores, np.arange(images), owners, bins)
    assert found.true.tolist() == true
    assert found.others.tolist() == others
    assert found.overlap == pytest.approx(overlap, abs=1e-12)


def test_separable_scores_give_zero_and_equal_ones_give_one():
    truth = np.eye(4, dtype=np.float32)
    assert separation(truth * 0.9, range(4), range(4)).overlap == 0
    assert separation(-truth, range(4), range(4)).overlap == 0  # separable the wrong way round
    assert separation(truth * 0, range(4), range(4)).overlap == pytest.approx(1)


def test_cosines_a_little_above_one_are_cosines():
    scores = np.full((2, 2), 1.0000002, np.float32)
    found = separation(scores, [0, 1], [0, 1])
    assert (found.low, found.high) == (-1, 1)
    assert found.true[-1] == found.others[-1] == 2


def test_other_scores_are_counted_over_their_own_range():
    found = separation(np.array([[40, 3], [-7, 40]], np.float32), [0, 1], [0, 1])
    assert (found.low, found.high) == (-7, 40)
    assert found.overlap == 0
    same = separation(np.full((2, 2), 5, np.float32), [0, 1], [0, 1])
    assert same.overlap == pytest.approx(1)


def test_what_cannot_be_separated_is_refused():
    with pytest.raises(WorkbenchError, match="every image belongs to every caption"):
        separation(np.zeros((1, 3), np.float32), ["a"], ["a"] * 3)
    with pytest.raises(WorkbenchError, match="score nan of image 1 and caption 0"):
        separation(np.array([[0, 1], [np.nan, 1]], np.float32), [0, 1], [0, 1])
