"""The page as a document: what is in it, what may not be in it, and what is refused."""

import base64
import hashlib
import json
import re

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
    results_of,
    taken_apart,
)

from pipeline.evaluation.rank_file import METRICS
from pipeline.evaluation.score_file import SplitScores
from pipeline.evaluation.standing import behind_first, verdict
from pipeline.runtime.errors import WorkbenchError


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    put_corpus(folder)
    put_model(folder, "weak", made_scores(0.1))
    put_model(folder, "strong", made_scores(0.6), csls=True)
    return folder


@pytest.fixture(scope="module")
def page(world):
    return page_of(world, "weak", "strong", curves=["strong"])


@pytest.fixture(scope="module")
def root(page):
    return taken_apart(page)


def test_a_row_per_model_and_criterion_with_every_figure(world, root):
    table = next(root.find("table", class_="sortable"))
    plain, apart = ([*body.find("tr")] for body in table.find("tbody"))
    title, *others = apart
    assert title.text.strip().startswith("Transductive, with all test queries at once")
    names = [next(row.find("th")).attributes["data-value"] for row in (*plain, *others)]
    assert names == ["strong", "weak", "strong + csls"]
    metrics = json.loads((world / "metrics/strong.json").read_text())
    for row, figures in (plain[0], metrics["naive"]), (others[0], metrics["csls"]):
        cells = list(row.find("td"))
        ways = [[*figures[way].values()] for way in ("i2t", "t2i")]
        order = [*ways[0][:3], *ways[1][:3], *ways[0][3:], *ways[1][3:]]
        found = [cells[0], *cells[3:]]
        assert [cell.text for cell in found] == [f"{v:.1f}" for v in (figures["rsum"], *order)]
        assert [float(c.attributes["data-value"]) for c in found] == [figures["rsum"], *order]
    assert next(next(table.find("tfoot")).find("th")).text == "chance"
    for metric in METRICS:
        assert root.text.count(metric.note) == 1, metric.name


def test_the_first_screen_says_who_leads_and_draws_the_intervals(world, root):
    results = results_of(world, "weak", "strong")
    (found,) = root.find("p", class_="verdict")
    assert found.text.replace("\u00a0", " ") == f"{verdict(results, behind_first(results))}."
    (picture,) = next(root.find("header")).find("svg", role="img")
    label = picture.attributes["aria-label"]
    assert label.index("strong") < label.index("weak")
    table = next(root.find("table", class_="sortable"))
    weak = next(row for row in table.find("tr") if row.text.strip().startswith("weak"))
    assert behind_first(results)["weak"].amount in " ".join(weak.text.split())


def test_the_best_figure_of_each_column_is_marked(root):
    table = next(root.find("table", class_="sortable"))
    rows = [list(row.find("td")) for row in next(table.find("tbody")).find("tr")]
    heads = {
        int(head.attributes["data-column"]): head.attributes["data-first"]
        for head in table.find("th")
        if "data-column" in head.attributes
    }
    assert sorted(heads) == list(range(4 + 2 * len(METRICS)))
    for column, cells in enumerate(zip(*rows, strict=True), start=1):
        if column in (2, 3):  # the interval, and what is behind the first
            continue
        values = [float(cell.text) for cell in cells]
        best = max(values) if heads[column] == "descending" else min(values)
        marked = ["best" in (cell.attributes.get("class") or "") for cell in cells]
        assert marked == [value == best for value in values], f"column {column}"


def test_captions_are_inert_text(root):
    assert len(list(root.find("script"))) == 1
    assert any(f"“{HOSTILE}”" in caption.text for caption in root.find("p", class_="caption"))
    assert any(found.text == HOSTILE for found in root.find("span", class_="text"))
    for element in root.find(""):
        assert not [name for name in element.attributes if name.startswith("on")], element.tag


def test_nothing_comes_from_elsewhere_and_one_script_may_run(root, page):
    policy = next(root.find("meta", http_equiv="Content-Security-Policy")).attributes["content"]
    script = next(root.find("script")).text
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    style = next(root.find("style")).text
    assert "@import" not in style
    assert "url(" not in style
    for element in root.find(""):
        for name in ("src", "href", "data", "action", "poster", "srcset", "xlink:href"):
            value = element.attributes.get(name)
            assert value is None or value.startswith(("data:", "#")), f"{element.tag} {name}"
    without_pictures = re.sub(r'="data:image/jpeg[^"]*"', "", page)
    assert not re.search(r"https?:|//\w", without_pictures)


def test_ids_are_unique_and_every_reference_is_met(root, page):
    ids = [element.attributes["id"] for element in root.find("") if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    used = [element.attributes.get("href", "") for element in root.find("")]
    used = [target[1:] for target in used if target.startswith("#")]
    used += re.findall(r"url\(#([^)]+)\)", page)
    for element in root.find(""):
        used += (element.attributes.get("aria-labelledby") or "").split()
    assert set(used) <= set(ids)
    assert any(target.startswith("model-") for target in used)


def test_every_image_has_an_alternative_text_and_every_figure_a_label(root):
    assert all(image.attributes["alt"] for image in root.find("img"))
    figures = list(root.find("svg", role="img"))
    assert len(figures) == 5  # intervals, rsum, one loss, two separations
    assert all(figure.attributes["aria-label"] for figure in figures)


def test_hubs_are_counted_as_in_the_paper_beside(root):
    table = next(table for table in root.find("table") if list(table.find("", id="hubs-pairs")))
    rows = [row for row in table.find("tr") if list(row.find("td"))]
    values = {next(r.find("th")).text: [float(cell.text) for cell in r.find("td")] for r in rows}
    assert len(values) == 5
    least = 100 * (CAPTIONS - IMAGES) / CAPTIONS
    assert values["every caption finds its own image"] == [least, 0, 100 - least, 0, 0]
    assert values["Sun et al., MS-COCO, sum margin, 25,000 pairs"] == [79.2, 4.1, 16.7, 12.0, 2.0]
    assert all(values[name][0] >= least for name in ("weak", "strong", "strong + csls"))


def test_names_of_models_are_inert_and_a_subset_of_the_images_is_shown_alone(tmp_path):
    put_corpus(tmp_path)
    name = 'a<b onclick=x>"&$q$'
    put_model(tmp_path, name, made_scores(0.6), subset=5)
    root = taken_apart(page_of(tmp_path, name, curves=[name]))
    assert not list(root.find("b", onclick="x"))
    assert f"Queries: {name}" in [head.text for head in root.find("h2")]
    assert "search the first 5 of 12 images" in root.text
    assert "over the first images alone" in root.text
    assert "im11.jpg" not in root.text


def test_provenance_says_what_the_scores_were_made_from(world, root):
    blocks = root.find("dl", class_="entries")
    pairs = [(next(e.find("dt")), next(e.find("dd"))) for block in blocks for e in block.children]
    entries = {name.text: value.text for name, value in pairs}
    assert entries["checkpoint_sha256"] == "ab12"
    assert entries["vse.dim"] == "256"
    assert len(entries["captions_sha256"]) == 64
    assert entries["numpy"] == np.__version__
    digest = hashlib.md5((world / "ranks/weak.h5").read_bytes()).hexdigest()  # as DVC records it
    assert f"-S{digest} -- dvc.lock" in entries["found by"]


def test_ranks_of_another_corpus_are_refused(tmp_path):
    put_corpus(tmp_path)
    split = made_scores(0.3)
    ids = [f"other{n}.jpg" for n in range(12)]
    owners = [ids[int(name[2:-4])] for name in split.caption_image_ids]
    captions = [f"d{n}" for n in range(30)]
    put_model(tmp_path, "vse", SplitScores(split.scores, ids, captions, owners, ids))
    with pytest.raises(WorkbenchError, match=r"vse\.h5: other0.* and 37 more not in the corpus"):
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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weights": "cd34"}, "strong.h5: made with other weights than"),
        ({"image": "im99.jpg"}, "strong.h5: im99.jpg not in the corpus"),
        ({"caption": "c99"}, "strong.h5: c99.* not in the corpus"),
    ],
)
def test_attention_that_does_not_fit_is_refused(tmp_path, changes, words):
    put_corpus(tmp_path)
    put_model(tmp_path, "strong", made_scores(0.3))
    put_attention(tmp_path, "strong", **changes)
    with pytest.raises(WorkbenchError, match=words):
        page_of(tmp_path, "strong", attention=["strong"])


def test_a_model_of_one_epoch_is_named_and_not_drawn(tmp_path):
    put_corpus(tmp_path)
    put_model(tmp_path, "strong", made_scores(0.6))
    (tmp_path / "curves/strong.tsv").write_text("epoch\tphase\tloss\tval_rsum\n1\ta\t9\t123.4\n")
    root = taken_apart(page_of(tmp_path, "strong", curves=["strong"]))
    (section,) = root.find("section", aria_labelledby="training")
    assert "strong 123.4" in section.text
    assert not list(section.find("svg"))
    assert "leads" not in next(root.find("p", class_="verdict")).text


def test_there_are_no_sections_of_what_is_not_there(world):
    root = taken_apart(page_of(world, "weak"))
    there = [section.attributes["aria-labelledby"] for section in root.find("section")]
    assert not {"training", "extended", "phrases"} & set(there)
    assert not list(root.find("", data_direction="attention"))


def test_extended_positives_stand_beside_where_there_are_any(tmp_path):
    put_corpus(tmp_path)
    grades = np.equal.outer(np.arange(IMAGES), OWNERS) + 0.5 * np.eye(IMAGES, CAPTIONS, 3)
    put_model(tmp_path, "strong", made_scores(0.6), csls=True, relevance=relevance_from(grades))
    root = taken_apart(page_of(tmp_path, "strong"))
    (section,) = root.find("section", aria_labelledby="extended")
    rows = list(next(section.find("tbody")).find("tr"))
    assert [next(row.find("th")).text for row in rows] == ["strong", "strong + csls", "chance"]
    titles = [head.text for head in next(section.find("thead")).find("th")][1:]
    told = dict(zip(titles, [cell.text for cell in rows[1].find("td")], strict=True))
    metrics = json.loads((tmp_path / "metrics/strong.json").read_text())
    assert told["t2i nDCG ext"] == f"{metrics['extended']['csls']['t2i']['ndcg']:.1f}"
    assert told["t2i R@1"] == f"{metrics['csls']['t2i']['r1']:.1f}"
