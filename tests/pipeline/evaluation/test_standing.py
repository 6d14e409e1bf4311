"""Who leads: the same figures as `vse compare` gives, in a sentence and beside each row."""

import re
from dataclasses import replace

import pytest
from report_world import made_scores, put_model, results_of

from pipeline.evaluation.comparison import groups_of
from pipeline.evaluation.paired import RESAMPLES, Difference, paired_differences
from pipeline.evaluation.rank_file import read_query_ranks
from pipeline.evaluation.standing import (
    behind_first,
    gains_of_training,
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
    assert lines[2] == f"{verdict(results, behind)}."
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}
    assert max(map(len, rows.values())) <= 120
    assert rows["near"].split("|")[-2].strip() == behind["near"].amount
    assert rows["first"].split("|")[-2].strip() == ""
    assert list(rows)[:5] == ["model", "first", "near", "far", "chance"]
