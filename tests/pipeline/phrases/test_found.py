"""Recall, upper bound and average precision against slow loops written from their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from phrase_cases import random_search

from pipeline.phrases.boxes import areas, overlaps, rows_of_images
from pipeline.phrases.found import first_ranks, recalls, upper_bound
from pipeline.phrases.result import (
    evaluate_phrases,
    mean_precision,
    ranked_phrases,
    resampled_precision,
)
from pipeline.runtime.errors import WorkbenchError


def slow_overlap(one, other):
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    size = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return width * height / (sum(size) - width * height)


def slow_rank(scores, boxes, truth):
    """The place of the best right box when all wrong boxes of its score stand before it."""
    order = sorted(
        zip(scores, boxes, strict=True),
        key=lambda pair: (-pair[0], slow_overlap(pair[1], truth) >= 0.5),
    )
    for place, (_, box) in enumerate(order, 1):
        if slow_overlap(box, truth) >= 0.5:
            return place
    return 0


def slow_nms(scores, boxes, nms):
    kept = []
    for place in sorted(range(len(boxes)), key=lambda p: (-scores[p], p)):
        if all(slow_overlap(boxes[place], boxes[other]) <= nms for other in kept):
            kept.append(place)
    return kept


def slow_precision(images, nms):
    """Average precision of a phrase; images: (scores, boxes, true boxes) of each, perhaps twice."""
    found = []
    for scores, boxes, truths in images:
        claimed = set()
        for place in slow_nms(scores, boxes, nms):
            near = [slow_overlap(boxes[place], truth) for truth in truths]
            best = max(range(len(near)), key=near.__getitem__)
            right = near[best] >= 0.5 and best not in claimed
            if right:
                claimed.add(best)
            found.append((-scores[place], right))
    found.sort()
    total, rights = sum(len(truths) for _, _, truths in images), 0
    curve = []
    for count, (_, right) in enumerate(found, 1):
        rights += right
        curve.append((rights / total, rights / count))
    area, recall = 0.0, 0.0
    for reached, _ in curve:
        area += (reached - recall) * max(p for r, p in curve if r >= reached)
        recall = reached
    return area


def by_phrase(found, scores):
    """text -> (scores, boxes, different true boxes) of each of its images."""
    groups = {}
    for row, (text, image) in enumerate(zip(found.phrases["text"], found.images, strict=True)):
        count = found.counts[image]
        own = groups.setdefault(text, {}).setdefault(
            image, (scores[row, :count].tolist(), found.boxes[image, :count].tolist(), [])
        )
        if found.truth[row].tolist() not in own[2]:
            own[2].append(found.truth[row].tolist())
    return groups


@pytest.mark.parametrize("seed", range(6))
def test_ranks_and_bound_are_those_of_slow_loops(seed):
    found, scores = random_search(seed)
    ranks = first_ranks(scores, found.hits())
    slow = [
        slow_rank(scores[row, : found.counts[i]], found.boxes[i, : found.counts[i]], truth)
        for row, (i, truth) in enumerate(zip(found.images, found.truth, strict=True))
    ]
    np.testing.assert_array_equal(ranks, slow)
    assert 0 < sum(rank > 0 for rank in slow) < len(slow)
    for k in (1, 5, 10):
        share = sum(0 < rank <= k for rank in slow) / len(slow)
        assert recalls(ranks)[f"r{k}"] == pytest.approx(100 * share)
    reached = sum(rank > 0 for rank in slow) / len(slow)
    assert upper_bound(found.hits()) == pytest.approx(100 * reached)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("nms", [0.1, 0.5])
def test_precision_is_that_of_a_slow_loop(seed, nms):
    found, scores = random_search(seed)
    ranked, slow = ranked_phrases(found, scores, nms), by_phrase(found, scores)
    assert set(ranked) == set(slow)
    wanted = {text: slow_precision(list(images.values()), nms) for text, images in slow.items()}
    for text, value in wanted.items():
        own = ranked[text]
        assert own.precision(np.ones((1, len(own.images))))[0] == pytest.approx(value), text
    mean = 100 * np.mean(list(wanted.values()))
    assert mean_precision(list(ranked.values())) == pytest.approx(mean)
    assert 0 < mean < 100


def test_resampled_precision_is_that_of_a_set_with_images_twice():
    found, scores = random_search(0)
    ranked, slow = ranked_phrases(found, scores, 0.3), by_phrase(found, scores)
    weights = np.random.default_rng(1).integers(0, 3, (4, len(found.counts))).astype(float)
    for drawn, value in zip(
        weights, resampled_precision(list(ranked.values()), weights), strict=True
    ):
        own = [
            slow_precision(
                [found for i, found in images.items() for _ in range(int(drawn[i]))], 0.3
            )
            for images in slow.values()
            if any(drawn[i] for i in images)
        ]
        assert value == pytest.approx(100 * np.mean(own))


def test_boxes_without_area_overlap_with_nothing():
    boxes = np.array([[1, 1, 1, 9], [5, 5, 2, 2], [0, 0, 4, 4]], np.float32)
    np.testing.assert_array_equal(areas(boxes), [0, 0, 16])
    np.testing.assert_array_equal(overlaps(boxes, boxes), np.diag([0.0, 0.0, 1.0]))


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(-1, n - 1)))))
def test_rows_of_images_are_those_that_a_search_for_each_finds(drawn):
    count, owners = drawn[0], np.array(drawn[1], int)
    found = [rows.tolist() for rows in rows_of_images(owners, count)]
    assert found == [np.flatnonzero(owners == image).tolist() for image in range(count)]


def test_scores_that_are_not_finite_are_refused():
    found, scores = random_search(0)
    with pytest.raises(WorkbenchError, match="not finite"):
        evaluate_phrases(found, np.where(scores > 0, np.nan, scores), 0.3, 0, 0.9, 0)
