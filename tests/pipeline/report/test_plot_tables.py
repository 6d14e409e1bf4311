"""Rows of the plots against counts by hand."""

import numpy as np
import pytest
from report_world import CAPTIONS, IMAGES, OWNERS, made_scores

from pipeline.evaluation.findings import occurrences, separation
from pipeline.evaluation.protocol import evaluate
from pipeline.evaluation.rank_file import read_query_ranks, write_ranks
from pipeline.report.colours import COLOURS
from pipeline.report.curve_files import Curve
from pipeline.report.plot_tables import (
    DEPTHS,
    as_tsv,
    hub_rows,
    recall_rows,
    separation_rows,
    training_rows,
    with_colours,
)


@pytest.fixture(scope="module")
def split():
    return made_scores(0.3)


def test_recall_counts_the_queries_whose_best_true_item_is_that_near(split, tmp_path):
    evaluation = evaluate(split, 1, 0, 0.95, 0)
    write_ranks(tmp_path / "m.h5", split, evaluation, 0.95)
    rows = recall_rows("m", read_query_ranks(tmp_path / "m.h5", "naive"))
    for way, name, items in (("i2t", "image to text", 30), ("t2i", "text to image", 12)):
        found = {row["k"]: row["recall"] for row in rows if row["direction"] == name}
        ranks = evaluation.measured["naive"][way].ranks
        assert found == {k: pytest.approx(100 * (ranks <= k).mean()) for k in found}
        assert set(found) == {k for k in DEPTHS if k <= items}


def test_densities_have_area_one_in_the_rows_too(split):
    rows = separation_rows("m", separation(split.scores, split.image_groups, split.caption_groups))
    for pairs in ("true pairs", "other pairs"):
        values = [row for row in rows if row["pairs"] == pairs]
        assert sum(row["density"] for row in values) * 0.02 == pytest.approx(1)
        mean = sum(row["density"] * row["score"] for row in values) * 0.02
        true = np.equal.outer(np.arange(IMAGES), OWNERS)
        own = split.scores[true if pairs == "true pairs" else ~true]
        assert mean == pytest.approx(own.mean(), abs=0.01)


def test_shares_of_hubs_are_of_all_items(split):
    rows = hub_rows("m", {way: occurrences(split.scores, way) for way in ("i2t", "t2i")})
    for items, count in (("captions", CAPTIONS), ("images", IMAGES)):
        shares = {row["nearest_of"]: row["share"] for row in rows if row["items"] == items}
        assert sum(shares.values()) == pytest.approx(100)
        nearest = split.scores.argmax(1 if items == "captions" else 0)
        unused = count - len(set(nearest.tolist()))
        assert shares["0"] == pytest.approx(100 * unused / count)


def test_training_has_a_note_where_a_next_phase_begins_and_rows_the_colour_of_their_model():
    curve = Curve([1.0, 2.0], [3.0, 2.0], [10.0, 20.5], phases=["one", "two"])
    rows = with_colours(training_rows("m", curve), {"other": 0, "m": 1})
    assert [(row["epoch"], row["rsum"]) for row in rows] == [(1, 10.0), (2, 20.5)]
    assert [row["note"] for row in rows] == ["", "m: two begins"]
    assert {row["colour"] for row in rows} == {COLOURS[1]}
    assert as_tsv([]).split() == list(rows[0])  # no model has several epochs
    parts = Curve([1, 2, 1, 2], [3.0] * 4, [1.0] * 4, phases="abab", parts=["x", "x", "y", "y"])
    rows = training_rows("m", parts)
    assert [row["part"] for row in rows] == ["x", "x", "y", "y"]
    assert [row["note"] for row in rows] == ["", "m: b begins", "", ""]  # said once


def test_a_table_has_a_header_and_six_digits():
    rows = [{"model": "a", "x": 1 / 3}, {"model": "b", "x": 2}]
    assert as_tsv(rows) == "model\tx\na\t0.333333\nb\t2\n"
