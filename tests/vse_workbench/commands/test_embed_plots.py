"""The page of `dvc plots` without a network, in a real browser, by the templates of .dvc/plots."""

import json
import re

import pytest
from clone import ROOT
from dvc_render.html import render_html
from dvc_render.vega import VegaRenderer

from pipeline.report.colours import COLOURS

pytest.importorskip("vl_convert", reason="the extra `plots` is not installed")
VSE = {"model": "vse", "colour": COLOURS[6]}
POINTS = {
    "curves": ("epoch", "val_rsum", {"filename": "data/curves/vse.tsv", "field": "val_rsum"}),
    "curve": ("epoch", "val_rsum", {}),
    "training": ("epoch", "rsum", {**VSE, "note": "vse: two begins"}),
    "recall": ("k", "recall", {**VSE, "direction": "image to text"}),
    "separation": ("score", "density", {"model": "vse", "pairs": "true pairs", "overlap": "0.1"}),
    "hubs": ("nearest_of", "share", {**VSE, "items": "images"}),
}


@pytest.fixture
def project(tmp_path):
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text("[core]\n    analytics = false\n")
    return tmp_path


def test_scripts_are_in_the_page_and_go_again(project, run_vse):
    run_vse("embed-plots", cwd=project)
    template = (project / ".dvc/plots.html").read_text()
    assert template.count("<script") == template.count("</script>") == 1
    assert "{plot_divs}" in template
    assert "html_template = plots.html" in (project / ".dvc/config.local").read_text()
    run_vse("embed-plots", "--remove", cwd=project)
    assert not (project / ".dvc/plots.html").exists()
    assert "html_template" not in (project / ".dvc/config.local").read_text()
    done = run_vse("embed-plots", cwd=project / ".dvc", check=False)
    assert done.stderr.startswith("error: .dvc/config: no such file")


def test_every_template_draws_without_a_network(project, run_vse, browser):
    waiting = pytest.importorskip("selenium.webdriver.support.wait")
    run_vse("embed-plots", cwd=project)
    drawn = [
        VegaRenderer(
            [{x: "1", y: "2", "rev": "workspace", **more}, {x: "2", y: "3", "rev": "b", **more}],
            name,
            template=name,
            template_dir=str(ROOT / ".dvc/plots"),
            **{"x": x, "y": y, "title": name.upper(), "x_label": x, "y_label": y},
        )
        for name, (x, y, more) in POINTS.items()
    ]
    render_html(drawn, project / "index.html", project / ".dvc/plots.html")
    browser.get((project / "index.html").as_uri())
    pictures = "css selector", "canvas, svg.marks"
    wait = waiting.WebDriverWait(browser, 20)
    wait.until(lambda page: len(page.find_elements(*pictures)) == len(POINTS))
    menus = browser.find_elements("css selector", "main summary")
    assert [menu.get_attribute("aria-label") for menu in menus] == ["save or show"] * len(POINTS)
    assert [line for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []
    loaded = "return performance.getEntriesByType('resource').map(entry => entry.name)"
    assert [name for name in browser.execute_script(loaded) if name.startswith("http")] == []


def as_svg(name, rows):
    import vl_convert

    x, y, _ = POINTS[name]
    text = (ROOT / f".dvc/plots/{name}.json").read_text()
    for anchor, value in {"X": x, "Y": y, "X_LABEL": x, "Y_LABEL": y, "TITLE": name}.items():
        text = text.replace(f"<DVC_METRIC_{anchor}>", value)
    chart = json.loads(text.replace('"<DVC_METRIC_DATA>"', json.dumps(rows)))
    return vl_convert.vegalite_to_svg(chart, vl_version="5.21")


@pytest.mark.parametrize("name", ["curves", "curve", "training"])
def test_few_epochs_are_labelled_once_each(name):
    x, y, more = POINTS[name]
    rows = [{**more, x: str(epoch), y: str(epoch), "rev": "a"} for epoch in (1, 2, 3)]
    axis = as_svg(name, rows).partition('aria-label="X-axis')[2].partition("Y-axis")[0]
    assert re.findall(r"<text[^>]*>([^<]+)</text>", axis) == ["1", "2", "3", x]


@pytest.mark.parametrize("name", ["training", "recall", "hubs"])
def test_a_chart_draws_each_model_in_its_colour(name):
    """Of several models, some of them left out: the colour is that of the rows."""
    x, y, more = POINTS[name]
    models = {"cca": COLOURS[0], "scan": COLOURS[3], "vse": COLOURS[6]}
    rows = [
        {**more, x: str(place), y: str(place + step), "rev": "a", "model": model, "colour": colour}
        for step, (model, colour) in enumerate(models.items())
        for place in (1, 2)
    ]
    svg = as_svg(name, rows)
    for model, colour in models.items():
        drawn = re.findall(rf'<path aria-label="[^"]*model: {model}[;"][^>]*>', svg)
        assert drawn
        assert all(colour in path for path in drawn), model
