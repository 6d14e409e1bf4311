"""The collapse check: what is refused, and what is not, where a set has few images."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_cases import split_of

from pipeline.evaluation.figures import chance_deviation, chance_level
from pipeline.evaluation.metrics.recall import ROWS
from pipeline.training.curve import (
    NEARLY_EQUAL,
    largest_of_chance,
    validate_retrieval,
    validation_columns,
)


def is_collapsed(split):
    """Whether scores that are better than all before count as a collapse."""
    found = validate_retrieval(split)
    return bool(found.collapsed) and not found.unless_better


def good_scores(images, captions):
    """Nearly equal scores (N, N x captions) that rank all captions right for each image, and the
    images right for the captions of five images in six."""
    true = np.tile(np.eye(images), captions)
    missed = np.arange(images) < images // 6
    return 0.9 + 0.01 * true - 0.02 * missed[:, None]


def collapsed_scores(images, captions, sides, random):
    """Cosines (N, N x captions) of vectors, those of each of the sides in one point."""
    units = {}
    for side, count in (("images", images), ("captions", images * captions)):
        vectors = random.normal(size=(count, 8))
        if side in sides:
            vectors = vectors[0] + 1e-4 * vectors
        units[side] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return units["images"] @ units["captions"].T


@pytest.mark.parametrize("captions", [1, 5])
@pytest.mark.parametrize("images", range(3, 21))
def test_of_few_images_good_models_pass_and_collapsed_ones_are_refused(images, captions):
    split = split_of(good_scores(images, captions))
    row = validation_columns(split)
    assert row["val_spread"] < NEARLY_EQUAL
    assert not is_collapsed(split)
    random, refused = np.random.default_rng(images), []
    for sides in [("images",), ("captions",), ("images", "captions")] * 10:
        split = split_of(collapsed_scores(images, captions, sides, random))
        refused.append(is_collapsed(split))
    assert np.mean(refused) > 0.95


def test_the_columns_are_r1_and_r10_of_both_directions_rsum_and_spread():
    """Of 12 images and captions, of which one caption finds its image eleventh."""
    scores = np.full((12, 12), 0.1)
    np.fill_diagonal(scores, 1.0)
    scores[0, 1] = 2.0  # image 0 finds its caption second, caption 1 its image second
    scores[2:, 0] = 1.5  # caption 0 finds its image eleventh
    row = validation_columns(split_of(scores))
    columns = ["val_rsum", "val_i2t_r1", "val_i2t_r10", "val_t2i_r1", "val_t2i_r10", "val_spread"]
    assert list(row) == columns
    assert row["val_t2i_r10"] == pytest.approx(100 * 11 / 12)
    assert row["val_t2i_r1"] == pytest.approx(100 * 10 / 12)
    assert row["val_i2t_r10"] == 100
    assert row["val_i2t_r1"] == pytest.approx(100 * 1 / 12)  # image 1 alone


@settings(max_examples=40)
@given(images=st.integers(1, 20), captions=st.integers(1, 5))
def test_equal_scores_are_refused_and_right_ones_never(images, captions):
    """Ties count against the model; a single image has nothing that it could be taken for."""
    true = np.tile(np.eye(images), captions)
    for scores, collapsed in ((0 * true + 0.9, images > 1), (0.9 + 0.01 * true, False)):
        split = split_of(scores)
        assert is_collapsed(split) == collapsed


@pytest.mark.parametrize(("images", "limit"), [(200, 24.0), (1000, 4.8)])
def test_of_many_images_the_limit_is_half_as_much_again_as_chance(images, limit):
    split = split_of(np.zeros((images, images)))
    chance = chance_level(split.image_ids, split.image_ids, ROWS)["rsum"]
    assert 1.5 * chance == pytest.approx(limit)
    assert largest_of_chance(split) == pytest.approx(limit, rel=0.03)


@pytest.mark.parametrize(("images", "captions"), [(4, 1), (6, 5), (12, 3)])
def test_the_deviation_of_chance_is_that_of_drawn_rankings(images, captions):
    """Ranks are drawn once for each image, and once for all of its captions."""
    random = np.random.default_rng(0)
    names = np.array([f"i{number}" for number in range(images)])
    drawn = []
    for _ in range(2000):
        places = random.random((images, images * captions)).argsort(1)[:, :captions]
        ranks = 1 + places.min(1), 1 + random.integers(images, size=images)
        drawn.append(sum(100 * (own <= k).mean() for own in ranks for k in (1, 5, 10)))
    groups = names, np.repeat(names, captions)
    assert chance_deviation(*groups) == pytest.approx(np.std(drawn), rel=0.06)
    assert chance_level(*groups)["rsum"] == pytest.approx(np.mean(drawn), rel=0.01)
