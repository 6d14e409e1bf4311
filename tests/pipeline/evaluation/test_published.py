"""Rows of papers beside measured ones: only those of the same test images are compared."""

import numpy as np
import pytest
from commands import refusal
from report_world import results_of

from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.known_splits import Certificate
from pipeline.evaluation.paper_rows import PublishedConfig
from pipeline.evaluation.protocol import evaluate
from pipeline.evaluation.published import (
    INSIDE,
    NO_INTERVAL,
    OUTSIDE,
    Measured,
    measured_rows,
    published_of,
    published_report,
    published_text,
    set_beside,
)
from pipeline.evaluation.rank_file import write_ranks
from pipeline.evaluation.score_file import SplitScores
from pipeline.runtime.files import write_json
from stages.params import find_problems

ROW = {
    "model": "vse",
    "paper": "Someone 2020",
    "table": "table 1",
    "row": "ours",
    "split": "rstpreid",
    "i2t": {"r1": 50.0, "r5": 80.0},
    "t2i": {"r1": 40.0},
}
FIGURES = {"i2t": {"r1": 50.04, "r5": 70.0}, "t2i": {"r1": 41.0}, "rsum": 300.0}
INTERVALS = {"i2t": {"r1": [48.0, 52.0], "r5": [68.0, 72.0]}, "t2i": {"r1": [39.96, 43.0]}}
WHOLE = Certificate("rstpreid", 1_000, 2_000)


def measured(certificate=WHOLE, intervals=INTERVALS, model="vse"):
    return Measured(model, "naive", FIGURES, intervals, certificate)


def beside(row=ROW, **of_measured):
    return set_beside([PublishedConfig(**row)], [measured(**of_measured)])[0]


def test_each_figure_has_its_difference_and_its_place():
    lines = beside().lines
    assert [line[1] for line in lines] == ["i2t R@1", "i2t R@5", "t2i R@1"]
    assert lines[0] == ["vse", "i2t R@1", "50.0", "48.0 to 52.0", "50.0", "+0.0", INSIDE]
    assert lines[1][-2:] == ["-10.0", OUTSIDE]
    assert lines[2][-2:] == ["+1.0", INSIDE]  # 40.0 as printed


def test_without_resamples_there_is_no_place():
    assert {line[-1] for line in beside(intervals=None).lines} == {NO_INTERVAL}


def test_what_differs_and_where_the_row_stands_is_said():
    said = beside(ROW | {"differs": "Another network."}).source
    assert said == "vse: Someone 2020, table 1, ours. What differs: Another network."


@pytest.mark.parametrize(
    ("split", "certificate", "words"),
    [
        ("other", WHOLE, "of other test images"),
        ("flickr30k", WHOLE, "of another split, Flickr30k, Karpathy; measured was RSTPReid"),
        ("mscoco_5k", Certificate(None, 9, 9), "MS-COCO 5K, Karpathy; measured was none that is"),
        (
            "mscoco_5k",
            Certificate("mscoco_5k", 4_997, 24_990, missing=3),
            "of the whole split; measured was MS-COCO 5K, Karpathy: 4,997 images, 24,990 captions, "
            "3 images of 5,000 are missing",
        ),
        ("mscoco_5k", Certificate("mscoco_1k", 5_000, 25_010), "of another split, MS-COCO 5K"),
    ],
)
def test_figures_of_other_images_are_named_and_not_compared(split, certificate, words):
    own = beside(ROW | {"split": split}, certificate=certificate)
    assert own.lines == []
    assert own.source.startswith("Not compared, vse: Someone 2020, table 1, ours (i2t R@1 50, i2t ")
    assert words in own.source


def test_a_model_without_a_result_is_named():
    assert "no such result here" in beside(model="cca").source
    assert published_text([]) == []
    assert published_report([]) == ""


def test_six_recalls_have_an_rsum_and_measured_figures_come_from_the_files(tmp_path):
    """1,000 images with two captions each, evaluated and read again."""
    names = [f"{n:04d}_c1_0001.jpg" for n in range(1_000)]
    owners = np.repeat(np.arange(1_000), 2)
    random = np.random.default_rng(0)
    scores = random.normal(size=(1_000, 2_000)) + 3 * np.equal.outer(np.arange(1_000), owners)
    captions = [f"c{n}" for n in range(2_000)]
    split = SplitScores(scores.astype("f4"), names, captions, [names[n] for n in owners], names)
    evaluation = evaluate(split, 1, 20, 0.95, 0, [Criterion("naive")], 1_000)
    write_json(tmp_path / "metrics/vse.json", evaluation.summary())
    write_ranks(tmp_path / "ranks/vse.h5", split, evaluation, 0.95)
    (own,) = measured_rows(results_of(tmp_path, "vse"))
    assert own.certificate == WHOLE
    same = {
        way: {key: own.figures[way][key] for key in ("r1", "r5", "r10")}
        for way in ROW
        if way in ("i2t", "t2i")
    }
    row = PublishedConfig(**(ROW | same))
    lines = set_beside([row], [own])[0].lines
    assert [line[1] for line in lines][-1] == "rsum"
    assert {line[-1] for line in lines} == {INSIDE}
    assert {line[-2] for line in lines} == {"+0.0"}
    assert lines[-1][2] == f"{own.figures['rsum']:.1f}"
    report = published_report(set_beside([row], [own]))
    assert report.startswith("\n## Published figures\n\n| model")


def problems(*rows):
    return [*find_problems({"published": list(rows)})]


def test_rows_that_are_wrong_are_refused():
    for change, words in (
        ({"model": "gone"}, "published.0.model = 'gone': allowed are "),
        ({"criterion": "best"}, "published.0.criterion = 'best': allowed are naive, "),
        ({"split": "coco"}, "published.0.split = 'coco': allowed are flickr8k, "),
        ({"i2t": {"r1": 50.0, "r5": 40.0}}, "i2t.r5 = 40.0: must not be below r1 = 50"),
        ({"i2t": {"r1": 0.5, "r10": 101.0}}, "i2t.r10 = 101.0: must be less than or equal to 100"),
        ({"i2t": {"r7": 50.0}}, "i2t.r7"),
        ({"i2t": {}, "t2i": {}}, "published.0: has no figure; give i2t: {r1: 50.0}, or t2i"),
    ):
        (problem,) = problems(ROW | change)
        assert words in problem
    assert problems(ROW) == []


def test_a_table_in_which_5k_lies_above_1k_is_refused():
    five = ROW | {"split": "mscoco_5k", "i2t": {"r1": 72.7}}
    one = ROW | {"split": "mscoco_1k", "i2t": {"r1": 50.4}}
    (problem,) = problems(one, five)
    assert problem == (
        "published.1: i2t r1 = 72.7 on MS-COCO 5K, Karpathy is above 50.4 on MS-COCO 1K, Karpathy, "
        "mean of five folds: are the two exchanged?"
    )
    assert problems(one | {"i2t": five["i2t"]}, five | {"i2t": one["i2t"]}) == []
    assert problems(one | {"model": "cca"}, five) == []
    assert problems(one | {"i2t": {"medr": 1.0}}, five | {"i2t": {"medr": 9.0}}) == []


def test_rows_of_a_revision_that_nothing_has_checked():
    assert published_of({}, "params.yaml") == []
    assert published_of({"published": [ROW]}, "params.yaml") == [PublishedConfig(**ROW)]
    for rows in ([ROW | {"split": "x"}], [3], 3, "rows"):
        assert refusal(published_of, {"published": rows}, "p.yaml").startswith("p.yaml: published:")
