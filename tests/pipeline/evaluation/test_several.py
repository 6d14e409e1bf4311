"""More than two runs: places by rsum, pairs as `paired_differences` has them, all corrected."""

import numpy as np
import pytest
from commands import refusal
from hypothesis import given
from hypothesis import strategies as st
from report_world import made_scores, put_model

from pipeline.evaluation.paired import RESAMPLES, paired_differences
from pipeline.evaluation.rank_file import read_query_ranks
from pipeline.evaluation.seeds import OverSeeds, differences_over_seeds, half_width
from pipeline.evaluation.several import places_conclusion, places_of, places_table

SIGNALS = {"A": (0.4, 0), "B": (0.4, 0), "C": (0.4, 1), "D": (0.0, 0), "E": (0.8, 3)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A and B are the same; D ranks by chance, E best."""
    folder = tmp_path_factory.mktemp("several")
    for name, (signal, seed) in SIGNALS.items():
        put_model(folder, name, made_scores(signal, seed=seed))
    return {name: read_query_ranks(folder / f"ranks/{name}.h5", "naive") for name in SIGNALS}


def places(runs, names):
    return places_of({name: [runs[name]] for name in names}, RESAMPLES, 0.95, 0)


def test_the_first_has_the_largest_rsum_and_the_others_their_distance_from_it(runs):
    found = places(runs, "ABCDE")
    rsums = [place.figures["rsum"] for place in found]
    assert found[0].name == "E"
    assert found[0].behind is None
    assert rsums == sorted(rsums, reverse=True)
    for place in found[1:]:
        alone = paired_differences(runs[place.name], runs["E"], RESAMPLES, 0.95, 0)[-1]
        assert (place.behind.low, place.behind.high) == (alone.low, alone.high)
        assert place.behind.b - place.behind.a == pytest.approx(rsums[0] - place.figures["rsum"])
    assert found[-1].name == "D"
    assert not found[-1].behind.tied


def test_the_same_run_twice_is_tied_and_chance_is_not(runs):
    found = {place.name: place for place in places(runs, "ABD")}
    second = found["B"] if found["A"].behind is None else found["A"]
    assert (second.behind.p, second.behind.tied) == (1.0, True)
    assert found["D"].behind.p < 0.05
    text = places_conclusion([*found.values()], 0.95)
    assert text == "Cannot be told from A: B (Holm's correction, 3 pairs, 95 %)."
    lines = places_table([*found.values()])
    assert "0.0 [0.0, 0.0] =" in lines[3]
    assert "=" not in lines[4]


def test_more_rows_never_make_a_pair_clearer(runs):
    few = {place.name: place.behind for place in places(runs, "CDE")}
    many = {place.name: place.behind for place in places(runs, "ABCDE")}
    assert all(many[name].p >= few[name].p for name in "CD")


def test_without_a_tie_that_is_said(runs):
    text = places_conclusion(places(runs, "DE"), 0.95)
    assert text == "All others can be told from E (Holm's correction, 1 pair, 95 %)."


def test_over_seeds_the_interval_is_that_of_two_settings(runs):
    weak = [runs["C"], runs["D"]]
    strong = [runs["E"], runs["A"]]
    found = places_of({"weak": weak, "strong": strong}, RESAMPLES, 0.95, 0)
    assert [place.name for place in found] == ["strong", "weak"]
    alone = differences_over_seeds(weak, strong, RESAMPLES, 0.95, 0)[-1]
    behind = found[1].behind
    assert (behind.s, behind.q) == pytest.approx((alone.s, alone.q))
    assert (behind.low, behind.high) == pytest.approx((alone.low, alone.high))
    assert behind.tied is (alone.low <= 0 <= alone.high)
    mean = np.mean([one.behind.b - one.behind.a for one in found[1:]])
    assert mean == pytest.approx(found[0].figures["rsum"] - found[1].figures["rsum"])


@given(
    st.floats(-50, 50).filter(lambda mean: abs(mean) > 1e-3),
    st.floats(0.1, 10),
    st.floats(0, 10),
    st.integers(2, 6),
)
def test_p_over_seeds_is_where_the_interval_ends_at_zero(mean, s, q, seeds):
    p = OverSeeds(mean=mean, s=s, q=q, low=0, high=0, seeds=seeds).p
    assert 0 < p <= 1
    if p > 1e-8:
        assert half_width(s, q, seeds, 1 - p) == pytest.approx(abs(mean), rel=1e-6, abs=1e-6)


def test_p_of_no_spread():
    assert OverSeeds(mean=0, s=0, q=0, low=0, high=0, seeds=2).p == 1
    assert OverSeeds(mean=3, s=0, q=0, low=3, high=3, seeds=2).p == 0
    assert OverSeeds(mean=0, s=1, q=1, low=-9, high=9, seeds=2).p == 1


def test_runs_of_other_queries_are_named(runs, tmp_path):
    put_model(tmp_path, "other", made_scores(0.4), subset=5)
    other = read_query_ranks(tmp_path / "ranks/other.h5", "naive")
    message = refusal(places_of, {"A": [runs["A"]], "C": [other]}, RESAMPLES, 0.95, 0)
    assert message.startswith("A and C differ in protocol: full and first_5")
