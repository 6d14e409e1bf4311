"""The first images of a test split against plain loops, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_cases import a_split

from pipeline.evaluation.criteria import CRITERIA
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.protocol import PROTOCOL, evaluate, first_images
from pipeline.evaluation.score_file import SplitScores
from pipeline.runtime.errors import WorkbenchError


@st.composite
def splits(draw, sizes=range(1, 10)):
    """Images with one to three captions each, those in any order."""
    count = draw(st.sampled_from(sizes))
    split = a_split(count, draw(st.permutations([1, 2, 3])), seed=draw(st.integers(0, 99)))
    order = np.array(draw(st.permutations(range(len(split.caption_ids)))))
    return replace(
        split,
        scores=split.scores.round()[:, order],
        caption_image_ids=[split.caption_image_ids[n] for n in order],
    )


@settings(max_examples=20)
@given(split=splits(), data=st.data())
def test_equals_leaving_out_images_one_by_one(split, data):
    count = data.draw(st.integers(1, len(split.image_ids)))
    found = first_images(split, count)
    keep = [n for n, name in enumerate(split.caption_image_ids) if name in split.image_ids[:count]]
    assert found.image_ids == found.image_groups == split.image_ids[:count]
    assert found.caption_ids == [split.caption_ids[n] for n in keep]
    assert found.caption_image_ids == [split.caption_image_ids[n] for n in keep]
    expected = [[split.scores[i, n] for n in keep] for i in range(count)]
    np.testing.assert_array_equal(found.scores, expected)


@pytest.mark.parametrize("name", CRITERIA)
@settings(max_examples=20)
@given(split=splits((4, 6, 8)))
def test_a_half_is_the_first_of_two_folds(name, split):
    """A criterion sees the subset alone: two halves averaged are two folds."""
    half = len(split.image_ids) // 2
    criteria = (Criterion(name, beta=2.0, k=1, iterations=3),)
    first = evaluate(first_images(split, half), 1, 0, 0.95, 0, criteria, len(split.image_ids))
    folds = evaluate(split, 2, 0, 0.95, 0, criteria)
    ranks = folds.measured[name]["i2t"].ranks
    np.testing.assert_array_equal(first.measured[name]["i2t"].ranks, ranks[:half])
    own = np.isin(split.caption_image_ids, split.image_ids[:half])
    ranks = folds.measured[name]["t2i"].ranks
    np.testing.assert_array_equal(first.measured[name]["t2i"].ranks, ranks[own])
    assert first.protocol == f"first_{half}"
    assert PROTOCOL.fullmatch(first.protocol)
    assert first.summary()["test_images"] == 2 * half


def test_persons_stay_whole():
    """Four images of two persons, a caption each."""
    ids, scores = list("abcd"), np.eye(4, dtype=np.float32)
    people = SplitScores(scores, ids, list("wxyz"), ids, ["p", "p", "q", "q"])
    assert first_images(people, 2).caption_ids == ["w", "x"]
    assert evaluate(first_images(people, 4), 1, 0, 0.95, 0, test_images=4).protocol == "full"
    with pytest.raises(WorkbenchError, match=r"subset = 3: would divide the images of 1 persons"):
        first_images(people, 3)
