"""The section of phrases on the page and in the table."""

import json
import shutil

import numpy as np
import pytest
from commands import refusal
from PIL import Image
from report_world import made_scores, page_of, put_corpus, put_model, put_phrases, taken_apart

from pipeline.evaluation.phrase_table import phrase_report, read_rows
from pipeline.report.phrases import draw_boxes
from pipeline.runtime.errors import WorkbenchError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    put_corpus(folder)
    put_model(folder, "vse", made_scores(0.5))
    put_phrases(folder, "weak", "strong")
    return folder


def test_the_page_shows_phrases_with_found_and_true_boxes(folder):
    text = page_of(folder, "vse", phrases=("weak", "strong"))
    (section,) = taken_apart(text).find("section", aria_labelledby="phrases")
    cards = list(section.find("article", class_="query"))
    assert cards
    for card in cards:
        assert len(list(card.find("img"))) == 3  # the true boxes, and two models
        head, *rows = card.find("tr")
        assert [cell.text for cell in head.find("th")] == ["Phrase", "weak", "strong"]
        assert len(rows) == 2
    assert "upper bound" in section.text
    assert "<script>alert" not in text.split("</head>")[1].split("<main>")[1].split("<script>")[0]


def test_the_table_has_the_bound_beside_the_figures(folder):
    rows = read_rows([folder / "metrics/weak.json", folder / "metrics/strong.json"])
    text = phrase_report(rows)
    assert [row.name for row in rows] == ["weak", "strong"]
    assert rows[0].figures["r1"] < rows[1].figures["r1"] <= rows[1].bound
    line = next(line for line in text.splitlines() if line.startswith("| strong"))
    assert f"{rows[1].bound:.1f}" in line
    assert "one (60)" in text
    assert "two (30)" in text
    assert phrase_report([]) == ""


def test_metrics_of_a_corpus_without_phrases_are_passed_over(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"phrases": 0}))
    assert read_rows([tmp_path / "a.json"]) == []
    (tmp_path / "a.json").write_text(json.dumps({"naive": {}}))
    assert "no metrics of a model of phrases" in refusal(read_rows, [tmp_path / "a.json"])


def test_boxes_are_drawn_in_their_colours_where_they_are():
    image = Image.new("RGB", (50, 25), "black")
    drawn = np.asarray(draw_boxes(image, [np.array([10, 5, 30, 20])], ["#ff0000"], 200))
    assert drawn.shape == (100, 200, 3)
    assert drawn[21, 80].tolist() == [255, 0, 0]
    assert drawn[20, 80].tolist() == [255, 255, 255]
    assert not drawn[50, 80].any()
    assert not drawn[10, 80].any()


def test_a_box_on_another_hides_no_side_of_it():
    image, box = Image.new("RGB", (50, 50), "black"), np.array([10, 10, 40, 40])
    drawn = np.asarray(draw_boxes(image, [box, box], ["#ff0000", "#0000ff"], 200))
    sides = drawn[41, 45:155], drawn[159, 45:155], drawn[45:155, 41], drawn[45:155, 159]
    for side in sides:
        for colour in ([255, 0, 0], [0, 0, 255]):
            assert 0.3 < (side == colour).all(-1).mean() < 0.7


def test_metrics_of_another_evaluation_or_model_are_refused(folder, tmp_path):
    metrics, found = tmp_path / "weak.json", tmp_path / "weak.h5"
    content = json.loads((folder / "metrics/weak.json").read_text())
    metrics.write_text(json.dumps(content | {"upper_bound": 12.5}))
    shutil.copy(folder / "found/weak.h5", found)
    assert read_rows([metrics])[0].bound == 12.5  # nothing to hold it against
    with pytest.raises(WorkbenchError, match=r"weak\.json: was not written with .*weak\.h5"):
        read_rows([metrics], [found])
    moved = metrics.rename(tmp_path / "n.json"), found.rename(tmp_path / "n.h5")
    assert "n.h5: of weak, another model" in refusal(read_rows, moved[:1], moved[1:])
