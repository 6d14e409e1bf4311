"""Figures of a model, their intervals and the file of what it found."""

import numpy as np
import pytest
from phrase_cases import random_search

from pipeline.features.feature_file import FeatureFile
from pipeline.phrases.result import (
    evaluate_phrases,
    resample_images,
    resampled_recalls,
    summary_line,
    write_result,
)


@pytest.fixture(scope="module")
def case():
    searched, scores = random_search(3, phrases=120, images=12)
    rows = searched.phrases.assign(type=["a", "b", "a/b"] * 40)
    rows["phrase_id"] = [f"p{n}" for n in range(120)]
    searched.phrases[rows.columns] = rows
    return searched, scores, evaluate_phrases(searched, scores, 0.3, 200, 0.9, 0)


def test_figures_lie_in_their_intervals_and_below_the_bound(case):
    _, _, result = case
    assert set(result.figures) == set(result.intervals) == {"r1", "r5", "r10", "map"}
    for name, figure in result.figures.items():
        low, high = result.intervals[name]
        assert low < figure < high
    assert result.figures["r1"] < result.figures["r5"] <= result.figures["r10"] <= result.bound
    assert summary_line(result).endswith(f"(upper bound {result.bound:.1f})")


def test_types_are_measured_apart(case):
    searched, scores, result = case
    assert {name: own["phrases"] for name, own in result.types.items()} == {"a": 80, "b": 80}
    ranks = result.ranks[np.arange(120) % 3 != 1]
    assert result.types["a"]["r5"] == pytest.approx(100 * ((ranks > 0) & (ranks <= 5)).mean())
    assert evaluate_phrases(searched, scores, 0.3, 0, 0.9, 0).intervals == {}


def test_resampled_recall_is_that_of_a_set_with_images_twice(case):
    searched, _, result = case
    weights = resample_images(12, 5, 0)
    assert (weights.sum(1) == 12).all()
    for own, found in zip(
        weights, resampled_recalls(result.ranks, searched.images, weights).T, strict=True
    ):
        again = np.repeat(result.ranks, own[searched.images].astype(int))
        wanted = [100 * ((again > 0) & (again <= k)).mean() for k in (1, 5, 10)]
        np.testing.assert_allclose(found, wanted)


def test_the_file_has_the_best_box_of_every_phrase(case, tmp_path):
    searched, scores, result = case
    write_result(tmp_path / "a.h5", searched, scores, result, {"model": "m"})
    file = FeatureFile(tmp_path / "a.h5")
    best = scores.argmax(1)
    boxes = searched.boxes[searched.images, best]
    np.testing.assert_array_equal(file.load("boxes"), boxes)
    np.testing.assert_array_equal(file.load("ranks"), result.ranks)
    hit = searched.hits()[np.arange(120), best]
    np.testing.assert_array_equal(file.load("overlaps") >= 0.5, hit)
    summary = result.summary()
    assert summary["upper_bound"] == result.bound
    assert summary["naive"]["phrases"] == result.figures
    assert summary["intervals"]["map"]["low"] < summary["intervals"]["map"]["high"]
