"""Sparse pairs against dense masks, and the metrics of extended positives against slow loops."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from ranking_cases import TIED, measure_judged
from relevance_cases import relevance_from, sorted_grades
from sklearn.metrics import ndcg_score

from pipeline.evaluation.figures import extended_chance
from pipeline.evaluation.rank_file import EXTENDED
from pipeline.evaluation.ranks import ranked, request_of_positives
from pipeline.evaluation.scores import Matrix, as_scores
from pipeline.evaluation.truth import relevance_of
from pipeline.runtime.errors import WorkbenchError

WAYS = ("i2t", "t2i")


@st.composite
def judged_worlds(draw):
    """Scores with many ties, grades of some pairs, and by direction which of them count."""
    shape = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    scores = draw(hnp.arrays(np.float32, shape, elements=TIED))
    grades = draw(hnp.arrays(np.float64, shape, elements=st.sampled_from([0, 0, 1, 1, 2.5])))
    masks = {way: draw(hnp.arrays(bool, shape)) for way in WAYS}
    return scores, grades, masks


@settings(max_examples=150)
@given(judged_worlds(), st.sampled_from([(1, 1), (2, 3), (9, 9)]))
def test_every_metric_equals_its_reference_over_pairs(world, block):
    scores, grades, masks = world
    relevance = relevance_from(grades, **masks)
    for way in WAYS:
        own = np.where(masks[way], grades, 0)
        lines = list(
            zip(scores, own, strict=True) if way == "i2t" else zip(scores.T, own.T, strict=True)
        )
        judged = [n for n, (_, line) in enumerate(lines) if line.any()]
        positives = relevance.positives(way)
        assert positives.queries.tolist() == judged
        if not judged:
            assert (
                len(ranked([request_of_positives(as_scores(scores), positives, way)])[0].ranks) == 0
            )
            continue
        measured = measure_judged(Matrix(scores, block), positives, way)
        ordered = [sorted_grades(*lines[query]) for query in judged]
        truth = [[grade > 0 for grade in line] for line in ordered]
        assert measured.ranks.tolist() == [line.index(True) + 1 for line in truth]
        for metric in EXTENDED:
            slow = [metric.reference(line) for line in (ordered if metric.graded else truth)]
            assert measured.values[metric.name] == pytest.approx(slow, rel=1e-12), metric.name


def test_ndcg_equals_sklearn_without_ties():
    random = np.random.default_rng(1)
    scores = random.standard_normal((20, 50))
    grades = random.choice([0, 0, 1, 3, 4.5], (20, 50))
    grades[:, 0] = 2.0
    found = measure_judged(scores, relevance_from(grades).positives("i2t"), "i2t")
    expected = [100 * ndcg_score([g], [s]) for g, s in zip(grades, scores, strict=True)]
    np.testing.assert_allclose(found.values["ndcg"], expected, rtol=1e-12)


def test_chance_is_the_mean_over_random_rankings():
    random = np.random.default_rng(2)
    grades = random.choice([0, 0, 0, 1, 2.5], (12, 9))
    grades[3] = 0  # a query that nothing judges
    relevance = relevance_from(grades)
    chance = extended_chance(relevance)
    for way in WAYS:
        positives = relevance.positives(way)
        drawn = [measure_judged(random.random((12, 9)), positives, way) for _ in range(400)]
        for metric in (m for m in EXTENDED if m.summary == "mean"):
            figures = [metric.figure(measured.values[metric.name]) for measured in drawn]
            error = 1e-9 + 5 * np.std(figures) / np.sqrt(len(figures))
            assert abs(np.mean(figures) - chance[way][metric.name]) < error, metric.name


@settings(max_examples=60)
@given(judged_worlds(), st.randoms(use_true_random=False))
def test_inside_is_the_part_of_the_matrix(world, random):
    _, grades, masks = world
    images = random.sample(range(grades.shape[0]), random.randint(1, grades.shape[0]))
    captions = random.sample(range(grades.shape[1]), random.randint(1, grades.shape[1]))
    found = relevance_from(grades, **masks).inside(np.array(images), np.array(captions))
    dense = np.zeros((len(images), len(captions)))
    dense[found.images, found.captions] = found.grades
    np.testing.assert_array_equal(dense, grades[np.ix_(images, captions)])
    for way in WAYS:
        kept = masks[way][np.ix_(images, captions)]
        np.testing.assert_array_equal(found.counts[way], kept[found.images, found.captions])


def test_pairs_of_other_images_and_captions_are_left_out():
    table = pd.DataFrame(
        [("b", "2", 1.0, True, False), ("x", "2", 1.0, True, True), ("a", "9", 3.0, True, True)],
        columns=["image_id", "caption_id", "grade", "i2t", "t2i"],
    )
    found = relevance_of("mine", table, ["a", "b"], ["1", "2", "3"])
    assert (found.images.tolist(), found.captions.tolist()) == ([1], [1])
    assert [found.counts[way].tolist() for way in WAYS] == [[True], [False]]
    assert (found.size, found.name) == ((2, 3), "mine")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_that_cannot_be_ranked_are_refused_in_unjudged_lines_too(value):
    grades = np.zeros((4, 3))
    grades[1, 2] = 1
    scores = np.zeros((4, 3))
    scores[3, 0] = value
    for way in WAYS:
        with pytest.raises(WorkbenchError, match="image 3 and caption 0"):
            measure_judged(scores, relevance_from(grades).positives(way), way)
    with pytest.raises(WorkbenchError, match="for 4 images and 3 captions"):
        measure_judged(scores[:3], relevance_from(grades).positives("i2t"), "i2t")
