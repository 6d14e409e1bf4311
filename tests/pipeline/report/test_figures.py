"""Figures as parts of the page: their data, their colours, their bytes."""

import re

import numpy as np
import pytest
from report_world import made_scores, taken_apart

from pipeline.evaluation.comparison import TableRow
from pipeline.evaluation.findings import separation
from pipeline.report.colours import COLOURS, numbers_of, shade
from pipeline.report.curve_files import Curve
from pipeline.report.drawing import as_svg, colour, css, dashes, figure
from pipeline.report.figures import interval_figure, loss_figure, rsum_figure, separation_figure
from pipeline.report.page import TEMPLATES

CURVES = {
    "vse": Curve([1.0, 2.0, 3.0, 4.0], [9.0, 5.0, 4.0, 3.5], [100.0, 250.0, 300.0, 280.0]),
    "scan": Curve([1.0, 2.0], [900.0, 100.0], [150.0, 350.5]),
}


def lines(svg, variable):
    """Vertices of the lines drawn in a CSS colour, (x, y) with y downwards."""
    style = rf'style="fill: none; [^"]*stroke: {re.escape(variable)}[;"]'
    found = re.findall(rf'<path d="([^"]*)"[^>]*{style}', svg)
    return [np.array(re.findall(r"[ML] (\S+) (\S+)", path), float) for path in found]


def test_the_picture_holds_every_curve_on_one_scale():
    svg = rsum_figure(CURVES, {"vse": 0, "scan": 2})
    drawn = [lines(svg, "var(--series-0)")[0], lines(svg, "var(--series-2)")[0]]
    values = np.concatenate([curve.rsum for curve in CURVES.values()])
    epochs = np.concatenate([curve.epochs for curve in CURVES.values()])
    points = np.concatenate(drawn)
    for data, place in ((epochs, points[:, 0]), (values, -points[:, 1])):
        slope, start = np.polyfit(data, place, 1)
        assert slope > 0
        np.testing.assert_allclose(slope * data + start, place, atol=0.01)
    label = next(taken_apart(svg).find("svg")).attributes["aria-label"]
    assert "vse 300.0 at epoch 3, scan 350.5 at epoch 2" in label


def test_losses_are_drawn_logarithmically_unless_one_is_not_positive():
    path = lines(loss_figure(CURVES["vse"], "vse", 1), "var(--series-1)")[0]
    fitted = np.polyfit(np.log(CURVES["vse"].loss), path[:, 1], 1, full=True)
    assert fitted[1][0] < 1e-4
    negative = Curve([1.0, 2.0, 3.0], [4.0, 1.0, -2.0], [1.0, 1.0, 1.0])
    path = lines(loss_figure(negative, "cca", 1), "var(--series-1)")[0]
    assert np.diff(path[:, 1])[0] == pytest.approx(np.diff(path[:, 1])[1], rel=1e-4)


def test_both_distributions_are_drawn_in_their_colours():
    split = made_scores(0.4)
    found = separation(split.scores, split.image_groups, split.caption_groups)
    svg = separation_figure(found, "vse", 0)
    peaks = [np.ptp(lines(svg, v)[0][:, 1]) for v in ("var(--true)", "var(--false)")]
    expected = [density.max() for density in found.densities]
    assert peaks[0] / peaks[1] == pytest.approx(expected[0] / expected[1], rel=1e-3)
    assert f"overlap {found.overlap:.3f}" in svg


def test_colours_and_fonts_are_the_pages():
    svg = rsum_figure(CURVES, {"vse": 0, "scan": 1})
    assert "currentColor" in svg
    assert "var(--rule)" in svg
    assert "font-family" not in svg
    assert "<style" not in svg
    assert not re.search(r"#[0-9a-f]{6}", svg)
    assert not re.search(r"https?:|<!DOCTYPE|<metadata", svg)


def test_names_in_figures_are_escaped():
    curves = {'<b>"$x$': CURVES["vse"]}
    svg = taken_apart(rsum_figure(curves, {'<b>"$x$': 0}))
    assert not list(svg.find("b"))
    assert '<b>"$x$' in next(svg.find("svg")).attributes["aria-label"]
    with figure() as drawn:
        drawn.subplots().set_xlabel("a < b & $c$")
        parsed = taken_apart(as_svg(drawn, "x", "y"))
    assert "a < b & $c$" in [text.text for text in parsed.find("text")]


def test_colours_with_dashes_tell_36_models_apart_and_are_those_of_dvc_plots():
    assert len({(css(colour(n)), dashes(n)) for n in range(36)}) == 36
    assert css(colour(len(COLOURS))) == css(colour(0))
    light = (TEMPLATES / "style.css").read_text().partition("@media")[0]
    assert re.findall(r"--series-\d: (#\w+)", light) == list(COLOURS)
    assert [shade(n) for n in range(len(COLOURS))] == list(COLOURS)
    assert len({shade(n) for n in range(36)}) == 36
    assert numbers_of(["a", "b", "c"], ["c", "new"]) == {"a": 0, "b": 1, "c": 2, "new": 3}


def test_a_next_phase_is_marked_where_it_begins():
    curve = Curve([1.0, 2.0, 3.0], [9.0, 5.0, 40.0], [1.0, 2.0, 9.0], phases=["one", "one", "two"])
    for svg in (rsum_figure({"x": curve}, {"x": 0}), loss_figure(curve, "x", 0)):
        mark = next(line for line in lines(svg, "var(--series-0)") if np.ptp(line[:, 0]) == 0)
        path = next(line for line in lines(svg, "var(--series-0)") if len(line) == 3)
        assert mark[0, 0] == pytest.approx(path[1:, 0].mean(), abs=0.01)
        assert re.search(r">(x: )?two<", svg)


def test_an_interval_is_drawn_from_end_to_end_around_its_figure():
    ends = {"best": (410.0, 470.0), "other": (300.0, 420.0)}
    rows = [TableRow(name, "naive", {"rsum": sum(own) / 2}, own) for name, own in ends.items()]
    svg = interval_figure(rows, {"best": 3, "other": 1})
    drawn = [lines(svg, f"var(--series-{number})")[0] for number in (3, 1)]
    assert drawn[0][0, 1] < drawn[1][0, 1]  # the first on top
    places = [end for line in drawn for end in line[:, 0]]
    values = [value for own in ends.values() for value in own]
    slope, start = np.polyfit(values, places, 1)
    np.testing.assert_allclose(slope * np.array(values) + start, places, atol=0.01)


def test_axes_stand_at_places_of_few_digits():
    with figure() as drawn:
        for axes in drawn.subplots(2, 1, height_ratios=[1, 3]):
            axes.plot([0, 1], [0, 3])
            axes.set_ylabel("some words")
        as_svg(drawn, "drawn", "two axes")
    corners = [side for axes in drawn.axes for side in axes.get_position().min]
    assert corners == [round(side, 6) for side in corners]
    assert len({*corners}) == 3  # laid out below each other
