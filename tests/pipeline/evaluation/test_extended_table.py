"""Both kinds of figures side by side: what the table says, and files that do not fit."""

import json

import numpy as np
import pytest
from relevance_cases import relevance_from
from report_world import CAPTIONS, IMAGES, OWNERS, cells, made_scores, put_model, results_of

from pipeline.evaluation.comparison import described, extended_report, rows_of
from pipeline.runtime.errors import WorkbenchError

GRADES = np.equal.outer(np.arange(IMAGES), OWNERS) + np.eye(IMAGES, CAPTIONS, 1)


def put(folder, name, grades=GRADES):
    relevance = None if grades is None else relevance_from(grades)
    put_model(folder, name, made_scores(0.1, len(name)), csls=True, relevance=relevance)


def test_own_and_extended_figures_stand_side_by_side(tmp_path):
    put(tmp_path, "a")
    put(tmp_path, "other")
    results = results_of(tmp_path, "a", "other")
    text = extended_report(results)
    pairs = np.count_nonzero(GRADES)
    assert f"Positives mine: {pairs} pairs; ext: of the 12 of 12 images and 30 of 30 cap" in text
    head, _, *rows = text.splitlines()[-7:]
    assert cells(head)[:4] == ["model", "i2t R@1", "i2t R@1 ext", "i2t mAP@R"]
    assert cells(head)[-5:] == ["t2i R-P ext", "t2i nDCG ext", "rsum", "rsum ext", "95 %"]
    order = [cells(row)[0] for row in rows]
    assert order == [*(row.label for row in rows_of(results)), "chance"]
    content = json.loads((tmp_path / "metrics/other.json").read_text())
    found = dict(zip(cells(head), cells(rows[order.index("other + csls")]), strict=True))
    own, extended = content["csls"], content["extended"]["csls"]
    assert found["t2i R@1"] == f"{own['t2i']['r1']:.1f}"
    assert found["t2i R@1 ext"] == f"{extended['t2i']['r1']:.1f}"
    assert found["i2t nDCG ext"] == f"{extended['i2t']['ndcg']:.1f}"
    assert found["rsum ext"] == f"{extended['rsum']:.1f}"
    low, high = results[1].record.extended["intervals"]["csls"]["rsum"]
    assert found["95 %"] == f"{low:.1f} to {high:.1f}"
    chance = dict(zip(cells(head), cells(rows[4]), strict=True))
    assert chance["i2t R@1 ext"] == f"{100 * pairs / GRADES.size:.1f}"
    assert chance["i2t R@1"] == f"{100 * CAPTIONS / GRADES.size:.1f}"


def test_without_a_list_there_is_no_section_and_the_table_is_the_same(tmp_path):
    put(tmp_path, "a", None)
    put(tmp_path / "with", "a")
    without, beside = results_of(tmp_path, "a"), results_of(tmp_path / "with", "a")
    assert extended_report(without) == ""
    assert described(without, "shapes") == described(beside, "shapes")


def test_models_by_different_lists_are_not_compared(tmp_path):
    put(tmp_path, "first")
    for name, grades in (("none", None), ("fewer", np.where(OWNERS == 3, 0, GRADES))):
        put(tmp_path, name, grades)
        with pytest.raises(WorkbenchError, match=f"first and {name} differ in extended positives"):
            results_of(tmp_path, "first", name)
