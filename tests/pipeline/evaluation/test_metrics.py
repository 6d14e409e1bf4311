"""Ranks and metrics against loops, invariances, and models that must not look good."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from benchmarks.tiled_ranks import ranks_from_embeddings
from pipeline.evaluation.metrics import (
    Ranks,
    average,
    chance_level,
    retrieval_ranks,
    summarise,
)
from pipeline.runtime.errors import WorkbenchError


def ranks_by_sorting(scores, image_groups, caption_groups):
    """Slowest form: sort each query's items, a true item after all others of its score."""

    def best_rank(row, true):
        order = sorted(range(len(row)), key=lambda item: (-row[item], true[item]))
        return next(place for place, item in enumerate(order, start=1) if true[item])

    true = np.equal.outer(np.asarray(image_groups), np.asarray(caption_groups))
    return (
        [best_rank(row, mask) for row, mask in zip(scores, true, strict=True)],
        [best_rank(row, mask) for row, mask in zip(scores.T, true.T, strict=True)],
    )


TIED = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.25, 3.0])


@st.composite
def worlds(draw, values=TIED):
    """Scores with many ties, and groups of several images and captions in any order."""
    present = draw(st.integers(1, 5))
    extra = st.lists(st.integers(0, present - 1), max_size=6)
    image_groups = draw(st.permutations([*range(present), *draw(extra)]))
    caption_groups = draw(st.permutations([*range(present), *draw(extra)]))
    shape = (len(image_groups), len(caption_groups))
    scores = draw(hnp.arrays(np.float32, shape, elements=values))
    return scores, np.array(image_groups), np.array(caption_groups)


def equal(ranks, i2t, t2i):
    np.testing.assert_array_equal(ranks.i2t, i2t)
    np.testing.assert_array_equal(ranks.t2i, t2i)


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from([1, 3, 10, 1 << 22]))
def test_equals_sorting_with_ties_and_any_block(world, block):
    equal(retrieval_ranks(*world, block=block), *ranks_by_sorting(*world))


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_a_monotone_transform_of_the_scores_changes_nothing(world):
    scores, *groups = world
    before = retrieval_ranks(scores, *groups)
    for changed in (scores - 100, np.exp(scores), scores.astype(np.float64) ** 3):
        equal(retrieval_ranks(changed, *groups), before.i2t, before.t2i)


@settings(max_examples=60, deadline=None)
@given(worlds(), st.randoms(use_true_random=False))
def test_order_does_not_matter(world, random):
    scores, images, captions = world
    rows, columns = list(range(len(images))), list(range(len(captions)))
    random.shuffle(rows)
    random.shuffle(columns)
    before = retrieval_ranks(*world)
    after = retrieval_ranks(scores[np.ix_(rows, columns)], images[rows], captions[columns])
    equal(after, before.i2t[rows], before.t2i[columns])


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_transposing_swaps_the_directions(world):
    scores, images, captions = world
    before, after = retrieval_ranks(*world), retrieval_ranks(scores.T, captions, images)
    equal(after, before.t2i, before.i2t)


@settings(max_examples=60, deadline=None)
@given(worlds(), st.data(), st.integers(1, 60))
def test_embeddings_give_the_ranks_of_their_products(world, data, block):
    _, images, captions = world
    # Small integers: products are exact whatever the kernel, so ties are ties in both forms.
    small = st.integers(-2, 2).map(float)
    pictures = data.draw(hnp.arrays(np.float32, (len(images), 3), elements=small))
    texts = data.draw(hnp.arrays(np.float32, (len(captions), 3), elements=small))
    ranks = ranks_from_embeddings(pictures, texts, images, captions, block)
    equal(ranks, *ranks_by_sorting(pictures @ texts.T, images, captions))


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from([-1e30, -1.0, -0.0, 1e-45, 2.0, 3e38]))
def test_constant_scores_never_beat_chance(world, value):
    scores, *groups = world
    summary = summarise(retrieval_ranks(np.full_like(scores, value), *groups))
    no_better(summary, chance_level(*groups))


@pytest.mark.parametrize("shuffled", [True, False])
def test_embeddings_give_the_ranks_of_their_products_in_many_tiles(shuffled):
    random = np.random.default_rng(2)
    images = np.concatenate([np.arange(190), random.integers(190, size=40)])
    captions = np.repeat(np.arange(190), random.integers(1, 7, 190))
    images = random.permutation(images) if shuffled else np.sort(images)
    pictures, texts = (
        random.integers(-2, 3, (len(groups), 4)).astype(np.float32) for groups in (images, captions)
    )
    ranks = ranks_from_embeddings(pictures, texts, images, captions, block=80 * 200)
    expected = retrieval_ranks(pictures @ texts.T, images, captions)
    equal(ranks, expected.i2t, expected.t2i)


def no_better(summary, chance, slack=1e-9):
    """slack: share of the chance value by which a figure may be better."""
    for way in ("i2t", "t2i"):
        for measure, value in chance[way].items():
            sign = 1 if measure.startswith("r") else -1
            assert sign * (summary[way][measure] - value) <= slack * value, (way, measure)
    assert summary["rsum"] - chance["rsum"] <= slack * chance["rsum"]


def five_each(images):
    return np.arange(images), np.repeat(np.arange(images), 5)


@pytest.mark.parametrize("width", [1, 7, 64])
@pytest.mark.parametrize("collapsed", ["both", "images", "captions"])
def test_collapsed_embeddings_never_beat_chance(width, collapsed):
    random = np.random.default_rng(width)
    images, captions = five_each(211)
    pictures = random.standard_normal((len(images), width)).astype(np.float32)
    texts = random.standard_normal((len(captions), width)).astype(np.float32)
    if collapsed in ("both", "images"):
        pictures[:] = pictures[0]
    if collapsed in ("both", "captions"):
        texts[:] = texts[0]
    # One side collapsed leaves one ranking for all queries, which scatters around chance.
    slack = 1e-9 if collapsed == "both" else 0.25
    for block in (1 << 22, 5000):
        summary = summarise(ranks_from_embeddings(pictures, texts, images, captions, block))
        no_better(summary, chance_level(images, captions), slack)


def test_true_captions_do_not_outrank_each_other():
    scores = np.array([[0.9, 0.8, 0.7, 0.6], [0.1, 0.2, 0.3, 0.65]])
    equal(retrieval_ranks(scores, [0, 1], [0, 0, 0, 1]), [1, 1], [1, 1, 1, 1])


def test_persons_with_several_images():
    scores = np.array([[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]])
    ranks = retrieval_ranks(scores, ["ann", "bob", "ann"], ["bob", "ann"])
    equal(ranks, [1, 1, 2], [1, 1])


def test_perfect_scores_are_100_percent():
    images, captions = five_each(20)
    scores = np.equal.outer(images, captions).astype(np.float32) - 5
    summary = summarise(retrieval_ranks(scores, images, captions))
    perfect = {"r1": 100.0, "r5": 100.0, "r10": 100.0, "medr": 1.0, "meanr": 1.0}
    assert summary == {"i2t": perfect, "t2i": perfect, "rsum": 600.0}


def test_one_image_and_one_caption():
    equal(retrieval_ranks(np.array([[-7.0]]), [3], [3]), [1], [1])
    equal(retrieval_ranks(np.zeros((1, 3)), ["a"], ["a", "a", "a"]), [1], [1, 1, 1])


def test_images_with_different_numbers_of_captions():
    scores = np.array([[3, 1, 2, 0], [5, 4, 1, 1], [0, 0, 0, 0.5]], dtype=np.float32)
    equal(retrieval_ranks(scores, [0, 1, 2], [0, 1, 1, 2]), [1, 2, 1], [2, 1, 2, 2])


def test_summary_of_known_ranks():
    summary = summarise(Ranks(i2t=np.array([1, 2, 6, 11]), t2i=np.array([1, 1, 3])))
    assert summary["i2t"] == {"r1": 25.0, "r5": 50.0, "r10": 75.0, "medr": 4.0, "meanr": 5.0}
    assert summary["t2i"]["r1"] == pytest.approx(200 / 3)
    assert summary["rsum"] == pytest.approx(150 + 200 / 3 + 200)
    assert json.loads(json.dumps(summary)) == summary


def test_average_over_folds():
    first = summarise(Ranks(np.array([1, 1]), np.array([1, 1])))
    second = summarise(Ranks(np.array([3, 3]), np.array([1, 20])))
    mean = average([first, second])
    assert mean["i2t"] == {"r1": 50.0, "r5": 100.0, "r10": 100.0, "medr": 2.0, "meanr": 2.0}
    assert mean["rsum"] == pytest.approx((600 + 350) / 2)


@settings(max_examples=12, deadline=None)
@given(worlds())
def test_chance_is_the_mean_of_random_rankings(world):
    scores, images, captions = world
    random = np.random.default_rng(0)
    drawn = [
        summarise(retrieval_ranks(random.random(scores.shape), images, captions))
        for _ in range(150)
    ]
    chance = chance_level(images, captions)
    for way in ("i2t", "t2i"):
        for measure in ("r1", "r5", "meanr"):
            values = np.array([summary[way][measure] for summary in drawn])
            margin = 5.5 * values.std() / math.sqrt(len(values)) + 0.7
            assert abs(values.mean() - chance[way][measure]) < margin, (way, measure)


def test_chance_of_the_usual_test_set():
    chance = chance_level(*five_each(200))
    assert chance["t2i"]["r1"] == pytest.approx(0.5)
    assert chance["t2i"]["r10"] == pytest.approx(5.0)
    assert chance["t2i"]["meanr"] == pytest.approx(100.5)
    assert chance["t2i"]["medr"] == 100
    assert chance["i2t"]["r1"] == pytest.approx(0.5)
    assert chance["i2t"]["r5"] == pytest.approx(100 * (1 - math.comb(995, 5) / math.comb(1000, 5)))
    assert chance["i2t"]["meanr"] == pytest.approx(1001 / 6)
    assert chance["rsum"] == pytest.approx(16, abs=0.2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (2, 7), (2, 14)])
def test_a_score_that_is_no_number_is_named(value, place):
    scores = np.zeros((3, 15), np.float32)
    scores[place] = value
    with pytest.raises(
        WorkbenchError, match=rf"{value} of image {place[0]} and caption {place[1]}"
    ):
        retrieval_ranks(scores, *five_each(3), block=4)


def test_all_nan_is_an_error_and_huge_scores_are_not():
    images, captions = five_each(3)
    with pytest.raises(WorkbenchError, match="finite"):
        retrieval_ranks(np.full((3, 15), np.nan), images, captions)
    huge = np.full((3, 15), np.finfo(np.float32).max)
    equal(retrieval_ranks(huge, images, captions), [11] * 3, [3] * 15)


def test_embeddings_that_are_no_numbers_are_an_error():
    pictures, texts = np.ones((3, 4), np.float32), np.ones((15, 4), np.float32)
    texts[8, 1] = np.nan
    with pytest.raises(WorkbenchError, match="image 0 and caption 8"):
        ranks_from_embeddings(pictures, texts, *five_each(3))
    texts[8] = pictures[1] = 1e30
    with pytest.raises(WorkbenchError, match="inf of image 1 and caption 8"):
        ranks_from_embeddings(pictures, texts, *five_each(3))


def test_queries_without_true_items_are_named():
    with pytest.raises(
        WorkbenchError, match="images without a caption: those of group lone"
    ) as info:
        retrieval_ranks(np.zeros((2, 2)), ["a", "lone"], ["a", "astray"])
    assert "captions without an image: those of group astray" in str(info.value)


@pytest.mark.parametrize(
    ("scores", "images", "captions", "message"),
    [
        (np.zeros((0, 0)), [], [], "at least one image"),
        (np.zeros((1, 0)), [1], [], "at least one image"),
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


@pytest.mark.parametrize(
    ("pictures", "texts", "message"),
    [
        (np.zeros((3, 2)), np.zeros((15, 3)), "width 2 and caption embeddings of width 3"),
        (np.zeros((4, 2)), np.zeros((15, 2)), r"expected \(3, K\)"),
        (np.zeros((3, 2)), np.zeros((15, 2), int), "caption embeddings"),
    ],
)
def test_malformed_embeddings_are_refused(pictures, texts, message):
    with pytest.raises(WorkbenchError, match=message):
        ranks_from_embeddings(pictures, texts, *five_each(3))
