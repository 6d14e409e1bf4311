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
    relevance_by_sorting,
    worlds,
)

from pipeline.evaluation.figures import (
    RECALLS,
    chance_level,
    measure,
    summarise,
    summary_of,
    values_of,
)
from pipeline.evaluation.metrics import Metric
from pipeline.evaluation.rank_file import EXTENDED, METRICS
from pipeline.evaluation.scores import Matrix
from pipeline.runtime.errors import WorkbenchError

WAYS = ("i2t", "t2i")
NAMES = [metric.name for metric in METRICS]
MEANS = [metric for metric in METRICS if metric.summary == "mean"]


def by_name(metrics=METRICS):
    return pytest.mark.parametrize("metric", metrics, ids=[metric.name for metric in metrics])


def test_names_and_titles_tell_metrics_apart():
    titles = [metric.title for metric in METRICS]
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in NAMES)
    assert len({*NAMES, "rsum", "transductive"}) == len(NAMES) + 2
    assert len({metric.name for metric in EXTENDED} - {"rsum"}) == len(EXTENDED)
    assert len({*titles, "rsum"}) == len(titles) + 1
    assert set(RECALLS) < set(NAMES)


@by_name()
@settings(max_examples=20)
@given(worlds(), st.sampled_from([(1, 1), (2, 3), (100, 100)]))
def test_equals_its_reference_with_ties_and_any_block(metric, world, block):
    scores, *groups = world
    measured = measure(Matrix(scores, block), *groups)
    truth = relevance_by_sorting(*world)
    for way in WAYS:
        slow = [metric.reference(line) for line in truth[way]]
        assert measured[way].ranks.tolist() == [line.index(True) + 1 for line in truth[way]]
        assert measured[way].values[metric.name] == pytest.approx(slow, rel=1e-12)
        figure = statistics.median(slow) if metric.summary == "median" else statistics.mean(slow)
        assert metric.figure(measured[way].values[metric.name]) == pytest.approx(figure)


def test_average_precision_of_a_known_ranking():
    """R@1 is content with the first item; mAP@R wants all of them (Musgrave et al. 2020)."""
    truth, expected = np.array([1, 0, 1, 0, 1]), 100 * (1 + 2 / 3) / 3
    measured = measure_direction(-np.arange(5.0)[None], np.array([1]), truth, "i2t")
    assert measured.values["mapr"] == pytest.approx([expected])
    assert METRICS[NAMES.index("mapr")].reference(truth) == pytest.approx(expected)


@pytest.mark.parametrize("per_query", [lambda r: r.ranks[:, 0] * np.nan, lambda r: r.ranks])
def test_a_metric_without_a_number_for_each_query_is_refused(per_query):
    odd = Metric("odd", "Odd", "Odd.", per_query, sum, lambda true, items: 0.0)
    images, captions = five_each(3)
    with pytest.raises(WorkbenchError, match=r"metric odd: .* finite one for each of 3 queries"):
        measure(np.equal.outer(images, captions) * 1.0, images, captions, (odd,))


def test_summary_of_known_ranks():
    summary = summarise(both_with([1, 2, 6, 11], [1, 1, 3]))
    known = {"r1": 25.0, "r5": 50.0, "r10": 75.0, "medr": 4.0, "meanr": 5.0, "mapr": 25.0}
    assert summary["i2t"] | known == summary["i2t"]
    assert summary["t2i"]["r1"] == pytest.approx(200 / 3)
    assert summary["rsum"] == pytest.approx(150 + 200 / 3 + 200)
    assert json.loads(json.dumps(summary)) == summary
    assert summary_of(values_of(summary)) == summary


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
    known = {"r1": 0.5, "r10": 5.0, "meanr": 100.5, "medr": 100, "mapr": 0.5}
    assert {name: chance["t2i"][name] for name in known} == pytest.approx(known)
    assert chance["i2t"]["r5"] == pytest.approx(100 * (1 - math.comb(995, 5) / math.comb(1000, 5)))
    assert chance["i2t"]["meanr"] == pytest.approx(1001 / 6)
    assert chance["rsum"] == pytest.approx(16, abs=0.2)
    expected = sum((1 + (k - 1) * 4 / 999) / k for k in range(1, 6)) / 1000
    assert chance["i2t"]["mapr"] == pytest.approx(100 * expected)
