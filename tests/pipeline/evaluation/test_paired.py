"""Differences of two runs against copying the drawn queries, one draw after the other."""

import dataclasses
import itertools
import math
import statistics

import numpy as np
import pytest
from ranking_cases import measured_with

from pipeline.evaluation.figures import concatenated, summarise, values_of
from pipeline.evaluation.paired import FIGURES, Difference, conclusion, paired_differences
from pipeline.evaluation.rank_file import Queries, QueryRanks
from pipeline.evaluation.seeds import (
    differences_over_seeds,
    over_seeds,
    shared_deviation,
)
from pipeline.runtime.errors import WorkbenchError

GROUPS = 30
OWNER = np.repeat(np.arange(GROUPS), np.resize((2, 1, 3), GROUPS))


def a_run(seed, chance=0.2, protocol="full"):
    """Ranks by chance: an image a group, two more of groups 0 and 4, 2, 1, 3, 2, ... captions."""
    random = np.random.default_rng(seed)
    images = np.r_[np.arange(GROUPS), [0, 4]] if protocol == "full" else np.arange(GROUPS)
    ranks = random.geometric(chance, len(images)), random.geometric(chance / 2, len(OWNER))
    ids = [f"{n}.jpg" for n in range(len(images))], [f"c{n}" for n in range(len(OWNER))]
    groups = [f"g{g}" for g in images], [f"g{g}" for g in OWNER]
    return QueryRanks(protocol, *map(Queries, ids, groups, map(measured, ranks)))


def changed(run, way, **changes):
    return dataclasses.replace(run, **{way: dataclasses.replace(getattr(run, way), **changes)})


def measured(ranks):
    """What queries of these ranks reach, with a mAP@R of its own: not all or nothing."""
    found = measured_with(ranks)
    found.values["mapr"][:] = 100 / np.sqrt(ranks)
    return found


def figures_by_drawing(run, groups, chosen):
    """The queries of every drawn group, as often as it was drawn, summarised."""
    ways = {}
    for way, queries in (("i2t", run.i2t), ("t2i", run.t2i)):
        own = [np.flatnonzero(np.array(queries.groups) == groups[group]) for group in chosen]
        ways[way] = concatenated([queries.measured.of(numbers) for numbers in own])
    return np.array(values_of(summarise(ways)))


def differences_by_drawing(a, b, folds, resamples, seed):
    """(resamples, figures): b - a, each draw once for both runs, means over the folds."""
    random = np.random.default_rng(seed)
    total = np.zeros((resamples, len(FIGURES)))
    for groups in folds:
        for draw in range(resamples):
            chosen = random.integers(len(groups), size=len(groups))
            total[draw] += figures_by_drawing(b, groups, chosen)
            total[draw] -= figures_by_drawing(a, groups, chosen)
    return total / len(folds)


@pytest.mark.parametrize("folds", [1, 3])
def test_intervals_equal_copying_the_drawn_queries(folds):
    protocol = "full" if folds == 1 else "10_x3"
    a, b = a_run(1, protocol=protocol), a_run(2, chance=0.25, protocol=protocol)
    names = np.array([f"g{n}" for n in range(GROUPS)]).reshape(folds, -1)
    drawn = differences_by_drawing(a, b, names, 60, seed=7)
    found = paired_differences(a, b, 60, 0.9, seed=7)
    assert [each.figure for each in found] == list(FIGURES)
    low, high = np.percentile(drawn, [5, 95], axis=0)
    assert [each.low for each in found] == pytest.approx(low, abs=1e-8)
    assert [each.high for each in found] == pytest.approx(high, abs=1e-8)
    for run, side in ((a, "a"), (b, "b")):
        expected = np.mean([figures_by_drawing(run, fold, range(len(fold))) for fold in names], 0)
        assert [getattr(each, side) for each in found] == pytest.approx(expected)


@pytest.mark.parametrize("folds", [1, 3])
def test_over_seeds_both_variances_add(folds):
    """Against a mean of drawn copies, and the quantiles of printed tables."""
    protocol = "full" if folds == 1 else "10_x3"
    a = [a_run(seed, protocol=protocol) for seed in (1, 2, 3)]
    b = [a_run(seed, chance=0.3, protocol=protocol) for seed in (4, 5, 6)]
    names = np.array([f"g{n}" for n in range(GROUPS)]).reshape(folds, -1)
    drawn = [differences_by_drawing(*pair, names, 40, seed=7) for pair in zip(a, b, strict=True)]
    pairs = itertools.combinations([of[:, -1] for of in drawn], 2)
    q = math.sqrt(max(np.mean([statistics.covariance(*pair) for pair in pairs]), 0))
    assert q > 0
    every = range(GROUPS // folds)
    each = [
        np.mean([figures_by_drawing(run, fold, every)[-1] for fold in names]) for run in (*a, *b)
    ]
    differences = [second - first for first, second in zip(each[:3], each[3:], strict=True)]
    s, mean = statistics.stdev(differences), statistics.fmean(differences)
    half = math.sqrt((4.302653 * s / math.sqrt(3)) ** 2 + (1.959964 * q) ** 2)
    rsum = differences_over_seeds(a, b, 40, 0.95, seed=7)[-1]
    found = rsum.s, rsum.q, rsum.b - rsum.a, rsum.low, rsum.high
    assert found == pytest.approx((s, q, mean, mean - half, mean + half), rel=1e-6)


# Deviations of what a seed, an image and a seed with an image add to a difference, in points of
# rsum, the latter two of the mean of all images: as the kept runs of claims have them.
SEEN = [(0.0, 2.5, 5.4), (2.5, 3.2, 5.3), (4.7, 2.4, 3.5), (9.0, 1.6, 3.6)]


@pytest.mark.parametrize(("n", "most"), [(3, 0.98), (5, 0.975)])
def test_intervals_over_seeds_hold_the_true_difference_as_often_as_they_say(n, most):
    """0 is the true difference of drawn seeds and images. With the whole deviation over images, in
    which s is once more, intervals are too wide."""
    random, images, times = np.random.default_rng(0), 40, 2000
    held = np.zeros((times, 2), dtype=bool)
    for number in range(times):
        seed, image, both = SEEN[number % len(SEEN)]
        of_images = random.normal(0, image * images**0.5, images)
        of_both = random.normal(0, both * images**0.5, (n, images))
        each = random.normal(0, seed, (n, 1)) + of_images + of_both
        whole = each.mean(axis=0).std(ddof=1) / images**0.5
        found = over_seeds(each.mean(axis=1).tolist(), shared_deviation(each) / images**0.5)
        half = found.high - found.mean
        wider = math.sqrt(half**2 + 1.96**2 * (whole**2 - found.q**2))
        held[number] = abs(found.mean) <= half, abs(found.mean) <= wider
    coverage, twice = held.mean(axis=0)
    assert 0.945 <= coverage <= most < twice


def test_rounding_of_sums_is_not_a_difference():
    """R@1 gained in one direction and lost in the other, in equal parts, whoever is drawn."""
    names = [f"g{n}" for n in range(7)]

    def a_direction(first, rest):
        return Queries(names, names, measured(np.where(np.isin(np.arange(7), first), 1, rest)))

    near, far = np.full(7, 3), np.array([3, 3, 3, 3, 3, 7, 7])
    one = QueryRanks("full", a_direction([0, 1], near), a_direction([2], far))
    other = QueryRanks("full", a_direction([2], near), a_direction([0, 1], far))
    rsum = paired_differences(one, other, 50, 0.95, 0)[-1]
    assert (rsum.low, rsum.high, rsum.better) == (0, 0, "")


MANY = len(FIGURES)


def with_better(*sides):
    """Differences of every figure, in favour of "A", "B" or neither ("")."""
    found = []
    for figure, side in zip(FIGURES, sides, strict=True):
        sign = {"A": -1, "B": 1, "": 0}[side] * (-1 if figure.endswith(" r") else 1)
        found.append(Difference(figure, 50, 50 + 2 * sign, 2.0 * sign - 1, 2.0 * sign + 1))
    return found


def test_the_conclusion_names_what_is_clear():
    only_rsum = conclusion(with_better(*[""] * (MANY - 1), "B"))
    assert only_rsum.startswith("B is better in rsum by 2.0 [1.0, 3.0]; the other differences are")
    both = conclusion(with_better("A", *[""] * (MANY - 5), "A", "B", "", "B"))
    assert both == (
        f"B is better in rsum by 2.0 [1.0, 3.0], also in {FIGURES[-3]}; "
        f"A is better in {FIGURES[-4]} by 2.0 [1.0, 3.0], also in i2t R@1; "
        "the other differences are within noise."
    )
    assert conclusion(with_better(*[""] * MANY)) == "All differences are within noise."
    assert "within noise" not in conclusion(with_better(*["A"] * MANY))


def test_runs_of_different_queries_are_refused():
    a = a_run(1)
    ids, groups = [*a.t2i.ids[:3], "x", *a.t2i.ids[4:]], ["g1", *a.i2t.groups[1:]]
    messages = {
        r"captions, 60 .*number 4 is 'c3' .* 'x' in B": changed(a, "t2i", ids=ids),
        r"32 and 31 .* number 32 .* none in B": changed(a, "i2t", ids=a.i2t.ids[:-1]),
        r"groups of images, .*number 1 is 'g0' .* 'g1' in B": changed(a, "i2t", groups=groups),
    }
    for message, b in messages.items():
        with pytest.raises(WorkbenchError, match=message):
            paired_differences(a, b, 50, 0.95, 0)


def test_protocols_must_agree_and_be_known():
    a = a_run(1)
    with pytest.raises(WorkbenchError, match="differ in protocol: full and 1k_x5"):
        paired_differences(a, dataclasses.replace(a, protocol="1k_x5"), 50, 0.95, 0)
    odd = dataclasses.replace(a, protocol="10_x0")
    with pytest.raises(WorkbenchError, match="unknown protocol"):
        paired_differences(odd, odd, 50, 0.95, 0)
