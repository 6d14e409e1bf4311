"""Both kinds of figures side by side: what the table says, and files that do not fit."""

import json

import numpy as np
import pytest
from ranking_cases import a_split
from relevance_cases import relevance_from

from pipeline.comparison.extended import extended_report, headings
from pipeline.comparison.results import read_results
from pipeline.comparison.table import report
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.file import write_ranks
from pipeline.evaluation.folds import evaluate
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_json

OWNERS = np.repeat(np.arange(10), 2)
GRADES = np.equal.outer(np.arange(10), OWNERS) + np.eye(20)[(4 + 2 * np.arange(10)) % 20]


def put_model(folder, name, grades=GRADES):
    split = a_split(10, (2,), signal=0, seed=len(name))
    criteria = [Criterion("naive"), Criterion("csls", beta=5.0, k=2, iterations=10)]
    relevance = None if grades is None else relevance_from(grades)
    evaluation = evaluate(split, 1, 20, 0.9, 0, criteria, None, relevance)
    metrics, ranks = folder / f"{name}.json", folder / f"{name}.h5"
    write_json(metrics, evaluation.summary())
    write_ranks(ranks, split, evaluation, 0.9)
    return metrics, ranks


def read(*models):
    return read_results([metrics for metrics, _ in models], [ranks for _, ranks in models])


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_own_and_extended_figures_stand_side_by_side(tmp_path):
    results = read(put_model(tmp_path, "a"), put_model(tmp_path, "other"))
    text = extended_report(results)
    assert "Positives mine: 30 pairs; ext: of the 10 of 10 images and 20 of 20 captions" in text
    head, _, *rows = text.splitlines()[-7:]
    assert cells(head) == ["model", *headings(), "90 %"]
    assert headings()[:3] == ["i2t R@1", "i2t R@1 ext", "i2t mAP@R"]
    assert headings()[-4:] == ["t2i R-P ext", "t2i nDCG ext", "rsum", "rsum ext"]
    assert [cells(row)[0] for row in rows] == ["a", "a + csls", "other", "other + csls", "chance"]
    content = json.loads((tmp_path / "other.json").read_text())
    found = dict(zip(cells(head), cells(rows[3]), strict=True))
    own, extended = content["csls"], content["extended"]["csls"]
    assert found["t2i R@1"] == f"{own['t2i']['r1']:.1f}"
    assert found["t2i R@1 ext"] == f"{extended['t2i']['r1']:.1f}"
    assert found["i2t nDCG ext"] == f"{extended['i2t']['ndcg']:.1f}"
    assert found["rsum ext"] == f"{extended['rsum']:.1f}"
    low, high = results[1].record.extended["intervals"]["csls"]["rsum"]
    assert found["90 %"] == f"{low:.1f} to {high:.1f}"
    chance = dict(zip(cells(head), cells(rows[4]), strict=True))
    assert chance["i2t R@1 ext"] == "15.0"  # 3 of 20 captions are true
    assert chance["i2t R@1"] == "10.0"


def test_without_a_list_there_is_no_section_and_the_table_is_the_same(tmp_path):
    (tmp_path / "with").mkdir()
    without, beside = read(put_model(tmp_path, "a", None)), read(put_model(tmp_path / "with", "a"))
    assert extended_report(without) == ""
    assert report(without, "shapes", "infonce") == report(beside, "shapes", "infonce")


def test_models_by_different_lists_are_not_compared(tmp_path):
    first = put_model(tmp_path, "first")
    for name, grades in (("none", None), ("fewer", np.where(OWNERS == 3, 0, GRADES))):
        with pytest.raises(WorkbenchError, match=f"first and {name} differ in extended positives"):
            read(first, put_model(tmp_path, name, grades))
