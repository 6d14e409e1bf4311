"""The rows of metrics against slow definitions, and chance against all rankings there are."""

import itertools
import json
import math
import re
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_cases import (
    both_with,
    five_each,
    measure_direction,
    measured_with,
    no_better,
    relevance_by_sorting,
    worlds,
)

from pipeline.evaluation.columns import COLUMNS, EXTENDED, METRICS, headings
from pipeline.evaluation.figures import (
    RECALLS,
    average,
    chance_level,
    summarise,
    summary_of,
    values_of,
)
from pipeline.evaluation.measure import measure
from pipeline.evaluation.row import Metric
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.tiles import as_tiles

WAYS = ("i2t", "t2i")
NAMES = [metric.name for metric in METRICS]
MEANS = [metric for metric in METRICS if metric.summary == "mean"]


def by_name(metrics=METRICS):
    return pytest.mark.parametrize("metric", metrics, ids=[metric.name for metric in metrics])


def test_names_and_titles_tell_metrics_apart():
    titles = [metric.title for metric in METRICS]
    assert NAMES[:6] == ["r1", "r5", "r10", "medr", "meanr", "mapr"]
    assert titles[:6] == ["R@1", "R@5", "R@10", "Med r", "Mean r", "mAP@R"]
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in NAMES)
    assert len({*NAMES, "rsum", "transductive"}) == len(NAMES) + 2
    assert len({metric.name for metric in EXTENDED} - {"rsum"}) == len(EXTENDED)
    assert len({*titles, "rsum"}) == len(titles) + 1
    assert set(RECALLS) < set(NAMES)
    assert all(math.isfinite(end) for metric in METRICS for end in metric.span)


def test_columns_are_the_metrics_of_both_directions_and_rsum():
    assert [".".join(column.keys) for column in COLUMNS] == [
        *(f"{way}.{metric.name}" for way in WAYS for metric in METRICS),
        "rsum",
    ]
    assert headings()[:2] == ["i2t R@1", "R@5"]
    assert headings()[len(METRICS) :: len(METRICS)] == ["t2i R@1", "rsum"]
    assert [column.label for column in COLUMNS][-2:] == [f"t2i {METRICS[-1].title}", "rsum"]


@by_name()
@settings(max_examples=60)
@given(worlds(), st.sampled_from([(1, 1), (2, 3), (100, 100)]))
def test_equals_its_reference_with_ties_and_any_block(metric, world, block):
    scores, *groups = world
    measured = measure(as_tiles(scores, block), *groups)
    truth = relevance_by_sorting(*world)
    for way in WAYS:
        slow = [metric.reference(line) for line in truth[way]]
        assert measured[way].values[metric.name] == pytest.approx(slow, rel=1e-12)
        figure = statistics.median(slow) if metric.summary == "median" else statistics.mean(slow)
        assert metric.figure(measured[way].values[metric.name]) == pytest.approx(figure)


@settings(max_examples=60)
@given(worlds())
def test_ranks_are_those_that_ranking_gives(world):
    measured, truth = measure(*world), relevance_by_sorting(*world)
    for way in WAYS:
        assert measured[way].ranks.tolist() == [line.index(True) + 1 for line in truth[way]]
        assert measured[way].ranks.dtype == np.int64
        assert list(measured[way].values) == [metric.name for metric in METRICS]


@by_name()
@settings(max_examples=30)
@given(worlds(), st.sampled_from([-1e30, -1.0, -0.0, 1e-45, 2.0, 3e38]))
def test_constant_scores_never_beat_chance(metric, world, value):
    scores, *groups = world
    summary = summarise(measure(np.full_like(scores, value), *groups))
    columns = [column for column in COLUMNS if column.keys[-1] in (metric.name, "rsum")]
    no_better(summary, chance_level(*groups), columns=columns)


@pytest.mark.parametrize("collapsed", ["images", "captions"])
def test_one_collapsed_side_scatters_around_chance(collapsed):
    """One ranking is left for all queries of that side, and no order for those of the other."""
    images, captions = five_each(211)
    random = np.random.default_rng(5)
    line = random.random(len(captions) if collapsed == "images" else len(images), np.float32)
    scores = np.broadcast_to(
        line if collapsed == "images" else line[:, None], (len(images), len(captions))
    )
    summary = summarise(measure(scores, images, captions))
    no_better(summary, chance_level(images, captions), slack=0.25)


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        ([1, 1, 1, 0, 0], 100.0),
        ([0, 0, 0, 1, 1, 1], 0.0),
        ([1, 0, 1, 0, 1], 100 * (1 + 2 / 3) / 3),
        ([0, 1, 0, 1], 100 * (1 / 2) / 2),
        ([0, 0, 1, 0], 0.0),
        ([1], 100.0),
    ],
)
def test_average_precision_of_known_rankings(truth, expected):
    """R@1 is content with the first item; mAP@R wants all of them (Musgrave et al. 2020)."""
    scores = -np.arange(len(truth), dtype=np.float64)[None]
    measured = measure_direction(scores, np.array([1]), np.array(truth), "i2t")
    assert measured.values["mapr"] == pytest.approx([expected])
    assert METRICS[NAMES.index("mapr")].reference(truth) == pytest.approx(expected)


def test_average_precision_of_single_true_items_is_recall_at_1():
    measured = measured_with([1, 2, 1, 40, 3])
    np.testing.assert_array_equal(measured.values["mapr"], measured.values["r1"])


def test_all_captions_of_an_image_count():
    """Two images with two and three captions; one caption of each is lost behind the others'."""
    scores = np.array([[5, 1, 4, 3, 2], [5, 1, 4, 3, 2]], np.float32)
    i2t = measure(scores, [0, 1], [0, 0, 1, 1, 1])["i2t"].values
    assert i2t["r1"].tolist() == [100, 0]
    assert i2t["mapr"] == pytest.approx([100 / 2, 100 * (1 / 2 + 2 / 3) / 3])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_refused_in_both_directions(value):
    scores = np.zeros((3, 15), np.float32)
    scores[1, 8] = value
    for way in WAYS:
        with pytest.raises(WorkbenchError, match=f"score {value} of image 1 and caption 8"):
            measure_direction(as_tiles(scores, (1, 6)), *five_each(3), way)
    with pytest.raises(WorkbenchError, match="finite"):
        measure(scores, *five_each(3))


@pytest.mark.parametrize(
    ("per_query", "message"),
    [
        (lambda ranking: ranking.ranks[:, 0] * np.nan, "metric odd: nan for a query; .* 0 to 100"),
        (lambda ranking: ranking.ranks[:, 0] + 100, "metric odd: 101 for a query"),
        (lambda ranking: -ranking.ranks[:, 0], "metric odd: -1 for a query"),
        (lambda ranking: ranking.ranks, r"metric odd: numbers of shape \(3, 5\) for 3 queries"),
    ],
)
def test_a_metric_without_a_number_that_can_be_is_refused(per_query, message):
    odd = Metric("odd", "Odd", "Odd.", per_query, sum, lambda true, items: 0.0)
    images, captions = five_each(3)
    with pytest.raises(WorkbenchError, match=message):
        measure(np.equal.outer(images, captions) * 1.0, images, captions, (odd,))


def test_perfect_scores_are_best_in_everything():
    images, captions = five_each(20)
    scores = np.equal.outer(images, captions).astype(np.float32) - 5
    summary = summarise(measure(scores, images, captions))
    perfect = {"r1": 100.0, "r5": 100.0, "r10": 100.0, "medr": 1.0, "meanr": 1.0, "mapr": 100.0}
    for way in WAYS:
        assert summary[way] | perfect == summary[way]
    assert summary["rsum"] == 600.0


def test_one_image_is_perfect_whatever_its_score():
    for captions in (1, 4):
        summary = summarise(measure(np.full((1, captions), -7.0), [3], [3] * captions))
        assert summary == chance_level([3], [3] * captions)
        assert summary["i2t"]["mapr"] == summary["t2i"]["mapr"] == 100.0


def test_summary_of_known_ranks():
    summary = summarise(both_with([1, 2, 6, 11], [1, 1, 3]))
    known = {"r1": 25.0, "r5": 50.0, "r10": 75.0, "medr": 4.0, "meanr": 5.0, "mapr": 25.0}
    assert summary["i2t"] | known == summary["i2t"]
    assert summary["t2i"]["r1"] == pytest.approx(200 / 3)
    assert summary["rsum"] == pytest.approx(150 + 200 / 3 + 200)
    assert json.loads(json.dumps(summary)) == summary
    assert summary_of(values_of(summary)) == summary


def test_average_over_folds():
    first = summarise(both_with([1, 1], [1, 1]))
    second = summarise(both_with([3, 3], [1, 20]))
    mean = average([first, second])
    known = {"r1": 50.0, "r5": 100.0, "r10": 100.0, "medr": 2.0, "meanr": 2.0, "mapr": 50.0}
    assert mean["i2t"] | known == mean["i2t"]
    assert mean["rsum"] == pytest.approx((600 + 350) / 2)


def over_all_rankings(metric, true, items):
    """Mean of the metric over every set of places that `true` of the items can have."""
    rankings = itertools.combinations(range(items), true)
    lines = ([place in places for place in range(items)] for places in rankings)
    return statistics.mean(metric.reference(line) for line in lines)


@by_name(MEANS)
@pytest.mark.parametrize("items", range(1, 8))
def test_chance_is_the_mean_over_all_rankings(metric, items):
    expected = [over_all_rankings(metric, true, items) for true in range(1, items + 1)]
    for true, value in enumerate(expected, start=1):
        assert metric.chance(np.array([true]), items) == pytest.approx(value)
    true = np.arange(1, items + 1)
    assert metric.chance(true, items) == pytest.approx(statistics.mean(expected))


@settings(max_examples=12)
@given(worlds())
def test_chance_of_both_directions_goes_by_the_pairs_of_any_groups(world):
    _, images, captions = world
    chance = chance_level(images, captions)
    pairs = {"i2t": (images, captions), "t2i": (captions, images)}
    for way, (queries, items) in pairs.items():
        true = [int((items == query).sum()) for query in queries]
        for metric in MEANS:
            slow = [over_all_rankings(metric, count, len(items)) for count in true]
            assert chance[way][metric.name] == pytest.approx(statistics.mean(slow)), (way, metric)


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
    assert chance["t2i"]["mapr"] == pytest.approx(0.5)
    expected = sum((1 + (k - 1) * 4 / 999) / k for k in range(1, 6)) / 1000
    assert chance["i2t"]["mapr"] == pytest.approx(100 * expected)
