"""Protocols, folds and intervals against plain loops."""

import numpy as np
import pytest
from commands import refusal
from ranking_cases import a_split, both_with, drawn_slowly, measure_direction

from pipeline.evaluation.bootstrap import MeasuredFold, bootstrap_intervals
from pipeline.evaluation.criteria import CRITERIA
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.figures import plain_rows, summarise
from pipeline.evaluation.protocol import cut_folds, evaluate, protocol_name
from pipeline.evaluation.rank_file import COLUMNS, METRICS
from pipeline.evaluation.truth import group_codes

WAYS = ("i2t", "t2i")


def same(found, expected):
    np.testing.assert_array_equal(found.ranks, expected.ranks)
    assert list(found.values) == [metric.name for metric in METRICS]
    for name, values in expected.values.items():
        np.testing.assert_array_equal(found.values[name], values)


@pytest.mark.parametrize(("folds", "protocol"), [(1, "full"), (3, "4_x3")])
@pytest.mark.parametrize("name", CRITERIA)
def test_a_criterion_ranks_every_fold_by_itself_and_figures_are_averaged(name, folds, protocol):
    split = a_split(images=12)
    criterion = Criterion(name, beta=5.0, k=2, iterations=10)
    evaluation = evaluate(split, folds, 0, 0.95, 0, (criterion,))
    assert list(evaluation.summary()) == [name, "protocol"]
    assert (evaluation.protocol, evaluation.intervals) == (protocol, {})
    assert evaluation.chance["t2i"]["r1"] == pytest.approx(100 * folds / 12, abs=1e-4)
    assert evaluation.metrics[name].get("transductive", False) is (name != "naive")
    owner, summaries = np.repeat(np.arange(12), np.resize((2, 1, 3), 12)), []
    for rows in np.arange(12).reshape(folds, -1):
        columns = np.isin(owner, rows)
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


def test_further_recalls_are_measured_beside_the_others():
    """Against counting ranks; rsum stays the sum of R@1, R@5 and R@10."""
    split, rows = a_split(images=30), plain_rows([20, 5, 3])
    found, plain = evaluate(split, 1, 20, 0.9, 0, metrics=rows), evaluate(split, 1, 20, 0.9, 0)
    for way in WAYS:
        figures, ranks = found.metrics["naive"][way], plain.measured["naive"][way].ranks
        assert list(figures)[:5] == ["r1", "r3", "r5", "r10", "r20"]
        for k in (3, 20):
            assert figures[f"r{k}"] == pytest.approx(100 * np.mean(ranks <= k), abs=1e-4)
        low, high = found.intervals["naive"][way]["r20"]
        assert low <= figures["r20"] <= high
    assert found.metrics["naive"]["rsum"] == plain.metrics["naive"]["rsum"]
    assert found.intervals["naive"]["rsum"] == plain.intervals["naive"]["rsum"]
    assert found.chance["t2i"]["r20"] == pytest.approx(100 * 20 / 30, abs=1e-4)


def test_protocol_names():
    names = {(5000, 1): "full", (5000, 5): "1k_x5", (1000, 5): "200_x5"}
    assert {sizes: protocol_name(*sizes) for sizes in names} == names
    assert [protocol_name(n, 1, is_subset=True) for n in (1000, 200)] == ["first_1k", "first_200"]


def test_folds_must_not_divide_a_person():
    people = np.array([0, 0, 1, 1, 1, 2])
    assert [len(fold["i2t"]) for fold in cut_folds(people, np.array([0, 1, 2]), 1)] == [6]
    assert "divide 1 persons" in refusal(cut_folds, people, np.array([0, 1, 2]), 2)
    assert "divide 2 persons" in refusal(cut_folds, np.array([0, 1, 0, 1]), np.array([0, 1]), 2)


def a_fold(groups=30):
    random = np.random.default_rng(5)
    captions = np.repeat(np.arange(groups), np.resize((2, 1, 3), groups))
    images = np.concatenate([np.arange(groups), [0, 0, 4]])
    ranks = random.geometric(0.2, len(images)), random.geometric(0.1, len(captions))
    measured = both_with(*ranks)
    for queries in measured.values():  # numbers between those that a single true item can give
        queries.values["mapr"][:] = 100 * random.random(len(queries.ranks))
    return MeasuredFold(measured, images, captions)


@pytest.mark.parametrize(("groups", "resamples", "seeds"), [(30, 200, [7]), (6, 1, range(8))])
def test_intervals_equal_copying_the_drawn_queries(groups, resamples, seeds):
    """Seeds enough for medians of a single draw that lie between two ranks."""
    fold = a_fold(groups)
    for seed in seeds:
        intervals = bootstrap_intervals([fold], resamples, 0.9, seed)
        drawn = drawn_slowly(fold, resamples, np.random.default_rng(seed))
        for column in COLUMNS:
            expected = np.percentile([column.of(draw) for draw in drawn], [5, 95])
            assert column.of(intervals) == pytest.approx(expected), column.label


def test_intervals_are_the_same_in_blocks(monkeypatch):
    whole = bootstrap_intervals([a_fold()], 50, 0.95, seed=1)
    monkeypatch.setattr("pipeline.evaluation.bootstrap.CELLS", 100)
    assert bootstrap_intervals([a_fold()], 50, 0.95, seed=1) == whole
    assert bootstrap_intervals([a_fold()], 50, 0.95, seed=2) != whole
