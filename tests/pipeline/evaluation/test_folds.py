"""Protocols, folds and intervals against plain loops."""

import numpy as np
import pytest
from ranking_cases import a_split, both_with, measure_direction

from pipeline.evaluation.bootstrap import MeasuredFold, bootstrap_intervals
from pipeline.evaluation.columns import COLUMNS, METRICS
from pipeline.evaluation.criteria import CRITERIA
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.figures import joined, summarise
from pipeline.evaluation.file import read_ranks
from pipeline.evaluation.folds import evaluate
from pipeline.evaluation.measure import measure
from pipeline.evaluation.protocol import cut_folds, protocol_name
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.groups import group_codes

WAYS = ("i2t", "t2i")


def same(found, expected):
    """Ranks and all metrics of queries are equal."""
    np.testing.assert_array_equal(found.ranks, expected.ranks)
    assert list(found.values) == [metric.name for metric in METRICS]
    for name, values in expected.values.items():
        np.testing.assert_array_equal(found.values[name], values)


def run(split, folds=1, resamples=0):
    return evaluate(split, folds, resamples, confidence=0.95, seed=0)


def test_one_fold_is_the_full_protocol():
    split = a_split()
    evaluation = run(split)
    assert list(evaluation.summary()) == ["naive", "protocol"]
    assert (evaluation.protocol, evaluation.intervals) == ("full", {})
    measured = measure(split.scores, split.image_groups, split.caption_groups)
    for way in WAYS:
        same(evaluation.measured["naive"][way], measured[way])
    assert run(split, folds=3).chance["t2i"]["r1"] == 25.0


@pytest.mark.parametrize("name", CRITERIA)
def test_a_criterion_ranks_every_fold_by_itself_and_figures_are_averaged(name):
    split = a_split(images=12)
    criterion = Criterion(name, beta=5.0, k=2, iterations=10)
    evaluation = evaluate(split, 3, 0, 0.95, 0, (criterion,))
    assert list(evaluation.summary()) == [name, "protocol"]
    assert evaluation.protocol == "4_x3"
    assert evaluation.metrics[name].get("transductive", False) is (name != "naive")
    owner, summaries = np.repeat(np.arange(12), np.resize((2, 1, 3), 12)), []
    for start in (0, 4, 8):
        rows, columns = np.arange(start, start + 4), np.isin(owner, range(start, start + 4))
        inside, codes = split.scores[rows][:, columns], group_codes(rows, owner[columns])
        expected = {
            way: measure_direction(criterion.rescored(inside, way), *codes, way) for way in WAYS
        }
        for way, queries in zip(WAYS, (rows, columns), strict=True):
            same(evaluation.measured[name][way].of(queries), expected[way])
        summaries.append(summarise(expected))
    for column in COLUMNS:
        mean = np.mean([column.of(summary) for summary in summaries])
        assert column.of(evaluation.metrics[name]) == pytest.approx(mean, abs=1e-4)


def test_protocol_names():
    names = {(5000, 1): "full", (5000, 5): "1k_x5", (1000, 5): "200_x5"}
    assert {sizes: protocol_name(*sizes) for sizes in names} == names
    assert [protocol_name(n, 1, cut=True) for n in (1000, 200)] == ["first_1k", "first_200"]


def test_folds_that_do_not_divide_the_images_name_those_that_do():
    with pytest.raises(WorkbenchError, match=r"folds = 5: .* 12 test .* 1, 2, 3, 4, 6, 12"):
        run(a_split(), folds=5)


def test_folds_must_not_divide_a_person():
    people = np.array([0, 0, 1, 1, 1, 2])
    assert [len(fold.images) for fold in cut_folds(people, np.array([0, 1, 2]), 1)] == [6]
    with pytest.raises(WorkbenchError, match="divide 1 persons"):
        cut_folds(people, np.array([0, 1, 2]), 2)
    with pytest.raises(WorkbenchError, match="divide 2 persons"):
        cut_folds(np.array([0, 1, 0, 1]), np.array([0, 1]), 2)


def test_constant_scores_and_nan():
    split = a_split(images=40)
    split.scores[:] = 0.5
    evaluation = run(split, resamples=20)
    assert evaluation.metrics["naive"]["t2i"]["medr"] == 40
    assert evaluation.intervals["naive"]["rsum"] == [0, 0]
    split.scores[3, 4] = np.nan
    with pytest.raises(WorkbenchError, match="image 3 and caption 4"):
        run(split)


def intervals_by_drawing(fold, resamples, random):
    """Slowest form: copy the queries of every drawn group, summarise each draw."""
    groups = fold.images.max() + 1
    drawn = []
    for _ in range(resamples):
        chosen = random.integers(groups, size=groups)
        measured = {
            way: joined([fold.measured[way].of(codes == group) for group in chosen])
            for way, codes in zip(WAYS, (fold.images, fold.captions), strict=True)
        }
        drawn.append(summarise(measured))
    return drawn


def a_fold(groups=30):
    random = np.random.default_rng(5)
    captions = np.repeat(np.arange(groups), np.resize((2, 1, 3), groups))
    images = np.concatenate([np.arange(groups), [0, 0, 4]])
    ranks = random.geometric(0.2, len(images)), random.geometric(0.1, len(captions))
    measured = both_with(*ranks)
    for queries in measured.values():  # numbers between those that a single true item can give
        queries.values["mapr"][:] = 100 * random.random(len(queries.ranks))
    return MeasuredFold(measured, images, captions)


def test_intervals_equal_copying_the_drawn_queries():
    fold = a_fold()
    intervals = bootstrap_intervals([fold], 200, 0.9, seed=7)
    drawn = intervals_by_drawing(fold, 200, np.random.default_rng(7))
    for column in COLUMNS:
        expected = np.percentile([column.of(draw) for draw in drawn], [5, 95])
        assert column.of(intervals) == pytest.approx(expected), column.label


def test_a_single_draw_is_its_own_interval():
    """Seeds enough for medians that lie between two ranks."""
    fold = a_fold(groups=6)
    for seed in range(8):
        intervals = bootstrap_intervals([fold], 1, 0.9, seed)
        (draw,) = intervals_by_drawing(fold, 1, np.random.default_rng(seed))
        for column in COLUMNS:
            assert column.of(intervals) == pytest.approx([column.of(draw)] * 2), column.label


def test_intervals_are_the_same_in_blocks(monkeypatch):
    whole = bootstrap_intervals([a_fold()], 50, 0.95, seed=1)
    monkeypatch.setattr("pipeline.evaluation.bootstrap.CELLS", 100)
    assert bootstrap_intervals([a_fold()], 50, 0.95, seed=1) == whole
    assert bootstrap_intervals([a_fold()], 50, 0.95, seed=2) != whole


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    """Ranks of an image's captions equal: single captions drawn would make intervals too narrow."""
    random = np.random.default_rng(11)
    codes, covered = np.repeat(np.arange(60), 5), 0
    for seed in range(120):
        hits = np.where(random.random(60) < 0.4, 1, 50)
        fold = MeasuredFold(both_with(hits, np.repeat(hits, 5)), np.arange(60), codes)
        low, high = bootstrap_intervals([fold], 200, 0.95, seed)["t2i"]["r1"]
        covered += low <= 40 <= high
    assert 0.85 <= covered / 120 <= 1


def test_a_file_of_other_content_is_no_rank_file(tmp_path):
    from pipeline.scores.file import write_scores

    write_scores(tmp_path / "s.h5", {"test": a_split()}, {})
    with pytest.raises(WorkbenchError, match=r"s\.h5: not a rank file: .*protocol"):
        read_ranks(tmp_path / "s.h5")
