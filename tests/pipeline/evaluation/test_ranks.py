"""Ranks against sorting, invariances, and scores that cannot be ranked."""

import numpy as np
import pytest
from commands import refusal
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_cases import equal, five_each, relevance_by_sorting, worlds

from pipeline.evaluation.ranks import ranked, request_of_groups, retrieval_ranks
from pipeline.evaluation.scores import Matrix
from pipeline.evaluation.truth import group_codes
from pipeline.runtime.errors import WorkbenchError

BLOCKS = st.tuples(st.integers(1, 8), st.integers(1, 8))


@settings(max_examples=60)
@given(worlds(), st.sampled_from(["i2t", "t2i"]), st.integers(1, 4), BLOCKS)
def test_ranks_of_all_true_items_equal_sorting(world, way, depth, block):
    scores, *groups = world
    truth = relevance_by_sorting(*world)[way]
    tiles, codes = Matrix(scores, block), group_codes(*groups)
    every, first = ranked([request_of_groups(tiles, *codes, way, some) for some in (None, depth)])
    places = [[place for place, hit in enumerate(line, start=1) if hit] for line in truth]
    assert [[rank for rank in ranks if rank < np.inf] for ranks in every.ranks.tolist()] == places
    assert every.true_counts.tolist() == [len(line) for line in places]
    np.testing.assert_array_equal(first.ranks, every.ranks[:, :depth])
    found = getattr(retrieval_ranks(tiles, *groups), way)
    assert found.tolist() == [line[0] for line in places]


def test_matrices_of_any_layout_are_ranked_and_left_as_they_are():
    random = np.random.default_rng(3)
    images, captions = five_each(7)
    plain = random.random((7, 35), np.float32)
    before = retrieval_ranks(plain, images, captions)
    turned = plain[::-1, ::-1].copy()[::-1, ::-1]
    fixed = plain.copy()
    fixed.flags.writeable = False
    for scores in (turned, fixed, np.asfortranarray(plain), np.repeat(plain, 2, axis=1)[:, ::2]):
        for block in ((3, 10), (1 << 10, 1 << 10)):
            found = retrieval_ranks(Matrix(scores, block), images, captions)
            equal(found, before.i2t, before.t2i)
        np.testing.assert_array_equal(scores, plain)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (2, 7), (2, 14)])
def test_a_score_that_is_no_number_is_named(value, place):
    scores = np.zeros((3, 15), np.float32)
    scores[place] = value
    said = refusal(retrieval_ranks, Matrix(scores, (1, 4)), *five_each(3))
    assert f"{value} of image {place[0]} and caption {place[1]}" in said


def test_queries_without_true_items_are_named():
    said = refusal(retrieval_ranks, np.zeros((2, 2)), ["a", "lone"], ["a", "astray"])
    assert "images without a caption: those of group lone" in said
    assert "captions without an image: those of group astray" in said


@pytest.mark.parametrize(
    ("scores", "images", "captions", "message"),
    [
        (np.zeros((0, 0)), [], [], "at least one image"),
        (np.zeros((2, 1)), [1], [1], r"shape \(2, 1\)"),
        (np.zeros((1, 1), int), [1], [1], "type int"),
        (np.zeros((1, 1)), [1], ["1"], "the same for images and captions"),
        (np.zeros((1, 1)), [1.5], [1.5], "integers or strings"),
        (np.zeros((1, 1)), np.array([None]), np.array([None]), "no group"),
    ],
)
def test_malformed_input_is_refused(scores, images, captions, message):
    with pytest.raises(WorkbenchError, match=message):
        retrieval_ranks(scores, images, captions)
