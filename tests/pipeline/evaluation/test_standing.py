"""Who leads: the same figures as `vse compare` gives, in a sentence and beside each row."""

import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_world import made_scores, put_model, results_of

from pipeline.evaluation.comparison import groups_of
from pipeline.evaluation.paired import RESAMPLES, Difference, paired_differences
from pipeline.evaluation.rank_file import read_query_ranks
from pipeline.evaluation.standing import (
    behind_first,
    chance_of,
    gains_of_training,
    holm_of_pairs,
    leaders,
    leaders_text,
    report,
    verdict,
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("standing")
    for name, signal in (("near", 0.3), ("far", 0.0), ("first", 0.4)):
        put_model(folder, name, made_scores(signal), csls=name != "far")
    return results_of(folder, "near", "far", "first")


def test_each_row_is_paired_with_the_first_as_vse_compare_pairs_two_runs(results):
    behind = behind_first(results)
    paths = {result.name: result.ranks for result in results}
    for first, *others in groups_of(results):
        assert first.label not in behind
        for row in others:
            runs = [read_query_ranks(paths[own.model], own.criterion) for own in (row, first)]
            rsum, found = paired_differences(*runs, RESAMPLES, 0.95, 0)[-1], behind[row.label]
            assert (found.low, found.high) == (rsum.low, rsum.high)
            assert (found.a, found.b) == pytest.approx((rsum.a, rsum.b), abs=1e-4)
    assert len(behind) == 3
    assert behind["far"].better == "B"


def test_one_sentence_says_who_leads_by_how_much_and_whether_it_is_noise(results):
    behind = {"near": Difference("rsum", 50, 52.5, -0.04, 5), "far": behind_first(results)["far"]}
    said = verdict(results, behind)
    assert said == "first leads near by 2.5 points of rsum [0.0, 5.0]: within noise"
    behind["near"] = Difference("rsum", 50, 52.5, 0.04, 5)
    assert verdict(results, behind).endswith("points of rsum [0.0, 5.0]: more than noise")
    assert verdict(results[1:2], {}).startswith("far reaches an rsum of ")


def test_a_training_is_ahead_of_what_it_began_as_by_the_paired_difference(results):
    """Also where it is behind, and not at all where the table lacks what it began as."""
    near, far, first = results
    paths = {result.name: result.ranks for result in results}
    for end, start in ((first, near), (far, near)):
        begun = replace(end, begins_as=start.name)
        (said,) = gains_of_training([*(r for r in results if r.name != end.name), begun])
        runs = [read_query_ranks(paths[own.name], "naive") for own in (start, end)]
        rsum = paired_differences(*runs, RESAMPLES, 0.95, 0)[-1]
        found = re.fullmatch(
            rf"By its training {end.name} leads near by (\S+) points of rsum \[(\S+), (\S+)\]: .*",
            said,
        )
        expected = rsum.b - rsum.a, rsum.low, rsum.high
        assert [float(text) for text in found.groups()] == pytest.approx(expected, abs=0.051)
        assert said in report([near, begun], behind_first([near, begun]), "shapes", "infonce")
    assert gains_of_training(results) == []
    assert gains_of_training([replace(first, begins_as="zero_shot"), near]) == []


def test_the_markdown_is_narrow_and_says_how_far_each_row_is_behind(results):
    behind = behind_first(results)
    lines = report(results, behind, "shapes", "max_margin").splitlines()
    assert lines[0] == "# Comparison of models"
    assert lines[2] == f"{verdict(results, behind)}. {leaders_text(results, behind)}."
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}
    assert max(map(len, rows.values())) <= 120
    assert rows["near"].split("|")[-2].strip() == behind["near"].amount
    assert "All others can be told from first (Holm's correction, 3 pairs, 95 %)" in lines[2]
    assert rows["first"].split("|")[-2].strip() == ""
    assert list(rows)[:5] == ["model", "first", "near", "far", "chance"]


def test_rows_that_cannot_be_told_from_the_first_are_marked_and_named(tmp_path):
    """One model twice under two names, one that differs by a few queries, one without a signal."""
    signals = (("twice", 0.4, 0), ("first", 0.4, 0), ("similar", 0.4, 1), ("far", 0.0, 0))
    for name, signal, seed in signals:
        put_model(tmp_path, name, made_scores(signal, seed=seed))
    results = results_of(tmp_path, *(name for name, _, _ in signals))
    behind = behind_first(results)
    group = leaders(groups_of(results)[0], behind)
    best, *others = (row.label for row in groups_of(results)[0])
    assert group == [best, *others[:2]]
    assert "far" not in group
    same = "twice" if best == "first" else "first"
    if same in behind:
        assert behind[same].tied is (same in group)
    said = f"Cannot be told from {best}: {', '.join(others[:2])} (Holm's correction, 6 pairs, 95 %)"
    assert leaders_text(results, behind) == said
    lines = report(results, behind, "shapes", "max_margin").splitlines()
    cells = {
        line.split("|")[1].strip(): line.split("|")[-2].strip() for line in lines if "|" in line
    }
    assert [cells[label].endswith("=") for label in (best, *others)] == [False, True, True, False]


def test_an_interval_that_misses_zero_may_not_hold_among_all_pairs(results):
    behind = {"near": Difference("rsum", 50, 52.5, 0.04, 5, p=0.09, tied=True)}
    assert verdict(results, behind).endswith("this pair alone, not among all pairs of the table")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=15))
def test_holms_correction_by_its_definition(values):
    """Step by step, from the smallest p: told while p times those that are left is small."""
    rows = next(n for n in range(2, 8) if n * (n - 1) // 2 >= len(values))
    pairs = list(combinations(range(rows), 2))
    alone = dict(zip(pairs, [*values, *[1.0] * (len(pairs) - len(values))], strict=True))
    corrected = holm_of_pairs(rows, lambda one, other: alone[(one, other)])
    for level in (0.01, 0.05, 0.5):
        told = set()
        left = sorted(alone, key=alone.get)
        while left and min(1.0, alone[left[0]] * len(left)) <= level:
            told.add(left.pop(0))
        assert {pair for pair in pairs if corrected[pair] <= level} == told


@given(st.lists(st.floats(-5, 5), min_size=9, max_size=60))
def test_p_is_that_of_the_percentile_interval(gaps):
    """At a confidence of 1 - p or more the interval of the draws holds zero, or ends at it."""
    draws = np.array(gaps).round(9)
    p = chance_of(draws)
    assert 2 / (len(gaps) + 1) <= p <= 1
    beyond = min((draws <= 0).mean(), (draws >= 0).mean())
    assert p >= min(1.0, 2 * beyond)
    assert p <= 2 * beyond + 2 / (len(gaps) + 1)
    assert chance_of(-draws) == p
