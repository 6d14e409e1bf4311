"""The page as a document: what is in it, what may not be in it, and what is refused."""

import base64
import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from relevance_cases import relevance_from
from report_world import (
    CAPTIONS,
    HOSTILE,
    IMAGES,
    OWNERS,
    made_scores,
    page_of,
    put_attention,
    put_corpus,
    put_model,
    taken_apart,
)

from pipeline.evaluation.columns import METRICS
from pipeline.evaluation.file import write_ranks
from pipeline.evaluation.folds import evaluate
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.file import SplitScores


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A corpus and the files of two models, one with a second criterion."""
    folder = tmp_path_factory.mktemp("world")
    put_corpus(folder)
    put_model(folder, "weak", made_scores(0.1))
    put_model(folder, "strong", made_scores(0.6), csls=True)
    return folder


@pytest.fixture(scope="module")
def page(world):
    return page_of(world, "weak", "strong", curves=["strong"])


def test_equal_inputs_give_equal_text(world, page):
    again = page_of(world, "weak", "strong", curves=["strong"])
    assert again == page


def test_a_row_per_model_and_criterion_with_every_figure(world, page):
    table = next(taken_apart(page).find("table", class_="sortable"))
    rows = list(next(table.find("tbody")).find("tr"))
    assert [next(row.find("th")).attributes["data-value"] for row in rows] == [
        "weak", "strong", "strong + csls",
    ]  # fmt: skip
    assert ["transductive" in row.text for row in rows] == [False, False, True]
    metrics = json.loads((world / "metrics/strong.json").read_text())
    for row, figures in zip(rows[1:], (metrics["naive"], metrics["csls"]), strict=True):
        cells = list(row.find("td"))
        expected = [figures["rsum"], *figures["i2t"].values(), *figures["t2i"].values()]
        found = [cells[0], *cells[2:]]
        assert [cell.text for cell in found] == [f"{value:.1f}" for value in expected]
        assert [float(cell.attributes["data-value"]) for cell in found] == expected
    assert next(next(table.find("tfoot")).find("th")).text == "chance"
    assert "Transductive, scores change with the other test queries: csls." in page


def test_the_best_figure_of_each_column_is_marked(page):
    table = next(taken_apart(page).find("table", class_="sortable"))
    rows = [list(row.find("td")) for row in next(table.find("tbody")).find("tr")]
    heads = {
        int(head.attributes["data-column"]): head.attributes["data-first"]
        for head in table.find("th")
        if "data-column" in head.attributes
    }
    assert sorted(heads) == list(range(3 + 2 * len(METRICS)))
    spans = [int(head.attributes["colspan"]) for head in table.find("th", scope="colgroup")]
    assert spans == [len(METRICS)] * 2
    assert [len(cells) for cells in rows] == [2 + 2 * len(METRICS)] * 3
    for column, cells in enumerate(zip(*rows, strict=True), start=1):
        if column == 2:  # the interval
            continue
        values = [float(cell.text) for cell in cells]
        best = max(values) if heads[column] == "descending" else min(values)
        marked = ["best" in (cell.attributes.get("class") or "") for cell in cells]
        assert marked == [value == best for value in values], f"column {column}"


def test_every_metric_is_explained(page):
    text = taken_apart(page).text
    for metric in METRICS:
        assert text.count(metric.note) == 1, metric.name


def test_captions_are_inert_text(page):
    root = taken_apart(page)
    assert len(list(root.find("script"))) == 1
    assert any(f"“{HOSTILE}”" in caption.text for caption in root.find("p", class_="caption"))
    assert any(found.text == HOSTILE for found in root.find("span", class_="text"))
    for element in root.find(""):
        assert not [name for name in element.attributes if name.startswith("on")], element.tag


def test_names_of_models_are_inert_text(tmp_path):
    put_corpus(tmp_path)
    name = 'a<b onclick=x>"&$q$'
    put_model(tmp_path, name, made_scores(0.3))
    root = taken_apart(page_of(tmp_path, name, curves=[name]))
    assert not list(root.find("b", onclick="x"))
    assert f"Queries: {name}" in [head.text for head in root.find("h2")]
    assert any(name in svg.attributes.get("aria-label", "") for svg in root.find("svg"))


def test_only_the_script_of_the_page_may_run(page):
    root = taken_apart(page)
    policy = next(root.find("meta", http_equiv="Content-Security-Policy")).attributes["content"]
    script = next(root.find("script")).text
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_nothing_comes_from_elsewhere(page):
    root = taken_apart(page)
    style = next(root.find("style")).text
    assert "@import" not in style
    assert "url(" not in style
    for element in root.find(""):
        for name in ("src", "href", "data", "action", "poster", "srcset", "xlink:href"):
            value = element.attributes.get(name)
            assert value is None or value.startswith(("data:", "#")), f"{element.tag} {name}"
    without_pictures = re.sub(r'="data:image/jpeg[^"]*"', "", page)
    assert not re.search(r"https?:|//\w", without_pictures)


def test_ids_are_unique_and_every_reference_is_met(page):
    root = taken_apart(page)
    ids = [element.attributes["id"] for element in root.find("") if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    used = [element.attributes.get("href", "") for element in root.find("")]
    used = [target[1:] for target in used if target.startswith("#")]
    used += re.findall(r"url\(#([^)]+)\)", page)
    for element in root.find(""):
        used += (element.attributes.get("aria-labelledby") or "").split()
    assert set(used) <= set(ids)
    assert any(target.startswith("model-") for target in used)


def test_every_image_has_an_alternative_text_and_every_figure_a_label(page):
    root = taken_apart(page)
    assert all(image.attributes["alt"] for image in root.find("img"))
    figures = list(root.find("svg", role="img"))
    assert len(figures) == 4  # rsum, one loss, two separations
    assert all(figure.attributes["aria-label"] for figure in figures)


def test_hubs_of_the_second_criterion_stand_beside_naive(page):
    root = taken_apart(page)
    for way in ("i2t", "t2i"):
        caption = next(root.find("caption", id=f"hubs-{way}"))
        assert "on average" in caption.text
    labels = [row.text for row in root.find("th", scope="row")]
    assert labels.count("strong + csls") == 3  # of both directions, and counted as in the paper
    assert "weak + csls" not in labels


def test_hubs_are_counted_as_in_the_paper_beside(page):
    root = taken_apart(page)
    table = next(table for table in root.find("table") if list(table.find("", id="hubs-pairs")))
    rows = {next(row.find("th")).text: row for part in ("tbody", "tfoot")
            for row in next(table.find(part)).find("tr")}  # fmt: skip
    assert len(rows) == 5
    values = {name: [float(cell.text) for cell in row.find("td")] for name, row in rows.items()}
    least = 100 * (CAPTIONS - IMAGES) / CAPTIONS
    assert values["every caption finds its own image"] == [least, 0, 100 - least, 0, 0]
    assert values["Sun et al., MS-COCO, sum margin, 25,000 pairs"] == [79.2, 4.1, 16.7, 12.0, 2.0]
    assert all(values[name][0] >= least for name in ("weak", "strong", "strong + csls"))


def test_a_subset_of_the_images_is_shown_alone(tmp_path):
    put_corpus(tmp_path)
    split = made_scores(0.6)
    put_model(tmp_path, "vse", split, subset=5)
    root = taken_apart(page_of(tmp_path, "vse"))
    assert "searches the first 5 of 12 images" in root.text
    assert "over the first images alone" in root.text
    assert "im11.jpg" not in root.text


def test_provenance_says_what_the_scores_were_made_from(page):
    root = taken_apart(page)
    entries = {
        next(entry.find("dt")).text: next(entry.find("dd")).text
        for block in root.find("dl", class_="entries")
        for entry in block.children
    }
    assert entries["checkpoint_sha256"] == "ab12"
    assert entries["vse.dim"] == "256"
    assert len(entries["captions_sha256"]) == 64


def test_a_small_run_gives_a_small_page(page):
    assert len(page) < 300_000


def test_no_curves_no_section_on_training(world):
    page = page_of(world, "weak")
    assert 'id="training"' not in page
    assert "Not trained by epochs" not in page


def test_files_of_models_come_together(world):
    with pytest.raises(WorkbenchError, match="curve files without a metrics file: strong"):
        page_of(world, "weak", curves=["strong"])


def test_ranks_of_an_earlier_version_make_no_page(tmp_path):
    put_corpus(tmp_path)
    split = made_scores(0.3)
    put_model(tmp_path, "vse", split)
    write_ranks(tmp_path / "ranks/vse.h5", split, evaluate(split, 1, 20, 0.95, 0), 0.95)
    with pytest.raises(WorkbenchError, match=r"vse\.h5: without hubs, .* an earlier version"):
        page_of(tmp_path, "vse")


def test_ranks_of_another_corpus_are_refused(tmp_path):
    put_corpus(tmp_path)
    ids = [f"other{n}.jpg" for n in range(12)]
    split = made_scores(0.3)
    owners = [ids[int(name[2:-4])] for name in split.caption_image_ids]
    captions = [f"d{n}" for n in range(30)]
    put_model(tmp_path, "vse", SplitScores(split.scores, ids, captions, owners, ids))
    message = r"vse\.h5: .*12 images that are not in the corpus: other0.*30 captions .*: d0"
    with pytest.raises(WorkbenchError, match=message):
        page_of(tmp_path, "vse")


def test_captions_that_moved_to_another_image_are_refused(tmp_path):
    put_corpus(tmp_path)
    split = made_scores(0.3)
    moved = [split.caption_image_ids[-1], *split.caption_image_ids[1:]]
    put_model(tmp_path, "vse", replace(split, caption_image_ids=moved))
    with pytest.raises(WorkbenchError, match=r"1 captions of another image .*: c0 \(im5\.jpg\)"):
        page_of(tmp_path, "vse")


def test_an_image_file_that_is_gone_is_named(tmp_path):
    put_corpus(tmp_path)
    put_model(tmp_path, "vse", made_scores(0.3))
    for path in (tmp_path / "pictures").iterdir():
        path.unlink()
    with pytest.raises(WorkbenchError, match=r"pictures/im\d+\.jpg: no such file"):
        page_of(tmp_path, "vse")


def test_attention_is_shown_for_models_that_have_it(tmp_path):
    put_corpus(tmp_path)
    for name in ("weak", "strong"):
        put_model(tmp_path, name, made_scores(0.3))
        put_attention(tmp_path, name)
    root = taken_apart(page_of(tmp_path, "weak", "strong", attention=["strong"]))
    (section,) = root.find("details", data_direction="attention")
    assert "numbered in the order" in section.text
    pairs = list(section.find("article"))
    assert ["✗ false" in pairs[0].text, "✓ true" in pairs[1].text] == [True, True]
    for pair in pairs:
        assert HOSTILE in next(pair.find("p", class_="caption")).text  # as text, not as markup
        assert [e.text for e in pair.find("span", class_="word")] == ["red", HOSTILE, "dog"]
        images = list(pair.find("img"))
        assert len(images) == 4
        assert all(e.attributes["src"].startswith("data:image/jpeg;base64,") for e in images)
        assert "weight 0.90" in images[1].attributes["alt"]
    assert not list(taken_apart(page_of(tmp_path, "weak")).find("", data_direction="attention"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weights": "cd34"}, "strong.h5: made with other weights than"),
        ({"image": "im99.jpg"}, "strong.h5: .*not in the corpus: im99.jpg"),
        ({"caption": "c99"}, "strong.h5: .*not in the corpus: c99"),
    ],
)
def test_attention_that_does_not_fit_is_refused(tmp_path, changes, words):
    put_corpus(tmp_path)
    put_model(tmp_path, "strong", made_scores(0.3))
    put_attention(tmp_path, "strong", **changes)
    with pytest.raises(WorkbenchError, match=words):
        page_of(tmp_path, "strong", attention=["strong"])
    put_attention(tmp_path, "other")
    with pytest.raises(WorkbenchError, match="attention files without a metrics file: other"):
        page_of(tmp_path, "strong", attention=["other"])


def test_extended_positives_stand_beside_where_there_are_any(tmp_path, page):
    assert "Extended positives" not in page
    put_corpus(tmp_path)
    grades = np.equal.outer(np.arange(IMAGES), OWNERS) + 0.5 * np.eye(IMAGES, CAPTIONS, 3)
    grades[1] = 0
    put_model(tmp_path, "strong", made_scores(0.6), csls=True, relevance=relevance_from(grades))
    found = taken_apart(page_of(tmp_path, "strong"))
    section = next(
        s for s in found.find("section") if s.attributes["aria-labelledby"] == "extended"
    )
    rows = list(next(section.find("tbody")).find("tr"))
    metrics = json.loads((tmp_path / "metrics/strong.json").read_text())
    figures = metrics["extended"]["csls"]
    assert [next(row.find("th")).text for row in rows] == ["strong", "strong + csls", "chance"]
    cells = [cell.text for cell in rows[1].find("td")]
    titles = [head.text for head in next(section.find("thead")).find("th")][1:]
    told = dict(zip(titles, cells, strict=True))
    assert told["i2t mAP@R ext"] == f"{figures['i2t']['mapr']:.1f}"
    assert told["t2i nDCG ext"] == f"{figures['t2i']['ndcg']:.1f}"
    assert told["t2i R@1"] == f"{metrics['csls']['t2i']['r1']:.1f}"
    assert f"of the {metrics['extended']['queries']['i2t']:,} of {IMAGES} images" in section.text
