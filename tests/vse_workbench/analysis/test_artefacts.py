"""The files of the analyses: tables that say what was computed, pictures of equal bytes."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from report_world import IMAGES, OWNERS, made_scores

from pipeline.evaluation.correlation import correlate
from pipeline.evaluation.findings import separation
from pipeline.report.curve_files import Curve
from pipeline.runtime.errors import WorkbenchError
from vse_workbench.analysis import artefacts, drawing, figures

CURVE = (
    "epoch\tphase\tloss\tval_rsum\n1\tstage_1\t90\t100.5\n2\tstage_1\t30\t250\n"
    "3\tstage_2\t20\t240\n4\tstage_1\t9\t200\n"
)


def read(path):
    return pd.read_csv(path, sep="\t")


def ink(path, colour):
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(int)
    wanted = [int(colour[n : n + 2], 16) for n in (1, 3, 5)]
    return (np.abs(pixels - wanted).max(-1) < 12).mean()


def test_separation_of_several_models(tmp_path):
    scores = {"before": made_scores(0.0), "after": made_scores(0.8)}
    line = artefacts.write_separation(tmp_path, scores)
    found = json.loads((tmp_path / "separation.json").read_text())
    table = read(tmp_path / "separation.tsv")
    for label, split in scores.items():
        expected = separation(split.scores, split.image_groups, split.caption_groups)
        assert found[label]["overlap"] == expected.overlap
        assert found[label]["true_pairs"] == len(OWNERS)
        assert found[label]["other_pairs"] == (IMAGES - 1) * len(OWNERS)
        rows = table[table["label"] == label]
        ends = (rows["low"].iloc[0], rows["high"].iloc[-1])
        assert ends == pytest.approx((expected.low, expected.high), rel=1e-4)
        width = rows["high"] - rows["low"]
        overlap = (np.minimum(rows["true"], rows["others"]) * width).sum()
        assert overlap == pytest.approx(expected.overlap, rel=1e-4)
        assert f"{label} {expected.overlap:.3f}" in line
    assert found["after"]["overlap"] < 0.3 < found["before"]["overlap"]


def test_phases_of_a_curve(tmp_path):
    path = tmp_path / "vse.tsv"
    path.write_text(CURVE)
    line = artefacts.write_curve(tmp_path, path, "vse")
    assert line == "largest validation rsum 250.0 in epoch 2 of 4"
    table = read(tmp_path / "curve.tsv")
    assert table["phase"].tolist() == ["stage_1", "stage_1", "stage_2", "stage_1"]
    assert table["kept"].tolist() == [0, 1, 0, 0]
    path.write_text("epoch\tphase\tval_rsum\n1\tfit\t2\n")
    with pytest.raises(WorkbenchError, match="of a model that is fitted at once"):
        artefacts.write_curve(tmp_path, path, "cca")


def test_hostile_names_are_drawn(tmp_path):
    hostile = r"$\frac$ <b>"
    scores = {f"{hostile} {n}": made_scores(n / 4) for n in range(4)}
    artefacts.write_separation(tmp_path, scores)
    ids = ["a", "b", "c\t$x$"]
    found = {hostile: correlate(np.random.default_rng(0).normal(size=(3, 9)), ids)}
    artefacts.write_correlations(tmp_path, found, ids)
    table = read(tmp_path / "correlations.tsv")
    assert table["image"].tolist() == ["a", "a", "b"]
    assert table["other"].tolist() == ["b", r"'c\t$x$'", r"'c\t$x$'"]
    tokens = [[hostile, "dog"] * 30, ["a", "dog"], ["x"]]
    captions = pd.DataFrame({"caption_id": ["c1", "c2", "lonely"], "tokens": tokens})
    drops = pd.DataFrame({"caption_id": ["c1", "c1", "c2", "c2"], "image_id": "im", "score": 0.5})
    drops["word"], drops["drop"] = [hostile, "dog", "a", "dog"], [0.1, 0.3, -0.1, 0.2]
    drops["position"], drops["place"] = [0, 1, 0, 1], [2, 1, 2, 1]
    artefacts.write_words(tmp_path, drops, captions)
    (tmp_path / "in.tsv").write_text(CURVE)
    artefacts.write_curve(tmp_path, tmp_path / "in.tsv", hostile)
    pictures = list(tmp_path.glob("*.png"))
    assert len(pictures) == 4
    for path in pictures:
        with Image.open(path) as image:
            assert image.info.keys() <= {"dpi"}
            assert 500 < image.width < 2000


def test_pictures_show_what_they_are_given(tmp_path):
    split = made_scores(0.8)
    found = separation(split.scores, split.image_groups, split.caption_groups)
    one, four = tmp_path / "one.png", tmp_path / "four.png"
    figures.draw_separation(one, {"a": found})
    figures.draw_separation(four, {str(n): found for n in range(4)})
    assert ink(one, drawing.TRUE) > 0.002
    assert ink(one, drawing.OTHER) > 0.002
    assert Image.open(four).height > 1.5 * Image.open(one).height
    curve = Curve([1.0, 2.0, 3.0], [3.0, 2.0, -1.0], [1.0, 2.0, 3.0], phases="aab")
    figures.draw_curve(one, "x", curve)
    assert all(ink(one, shade) > 0.0001 for shade in drawing.SERIES[:2])
    errors = {"image": [0.9, 0.4, 0.1], "text": [1.0, 0.8, float("nan")]}
    figures.draw_curve(four, "x", replace(curve, errors=errors))
    assert Image.open(four).height > 1.4 * Image.open(one).height
