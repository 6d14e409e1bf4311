"""What the report reads beside scores and tables: curves, images, parameters."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from pipeline.report.curve_files import read_curve
from pipeline.report.pictures import SIDE, thumbnail
from pipeline.report.provenance import parameters
from pipeline.runtime.errors import WorkbenchError
from pipeline.training.curve import curve_tsv


def test_a_curve_as_training_writes_it(tmp_path):
    rows = [
        {"epoch": n, "phase": "x", "loss": 10.0 / n, "val_rsum": r, "lr": 0.1}
        for n, r in ((1, 100.0), (2, 300.0), (3, 300.0))
    ]
    (tmp_path / "vse.tsv").write_text(curve_tsv(rows))
    curve = read_curve(tmp_path / "vse.tsv")
    assert curve.epochs == [1, 2, 3]
    assert curve.loss == pytest.approx([10, 5, 10 / 3], rel=1e-5)
    assert curve.rsum == [100, 300, 300]
    assert curve.best == (2, 300)  # the first of equal ones, whose weights were kept


def test_parts_that_were_trained_one_after_the_other(tmp_path):
    """Lines break between them, phases begin in each anew, and the last row is of what was kept."""
    rows = [
        {"epoch": epoch, "part": part, "phase": phase, "loss": 1.0, "val_rsum": rsum}
        for epoch, part, phase, rsum in (
            (1, "word", "a", 9.0),
            (2, "word", "b", 8.0),
            (1, "object", "a", 5.0),
            (2, "object", "a", 6.0),
            (3, "object", "b", 7.0),
            (3, "together", "b", 8.5),
        )
    ]
    (tmp_path / "dp_rnn.tsv").write_text(curve_tsv(rows))
    curve = read_curve(tmp_path / "dp_rnn.tsv")
    nan = np.nan
    expected = [1, 2, nan, 1, 2, 3, nan, 3], [9, 8, nan, 5, 6, 7, nan, 8.5]
    np.testing.assert_equal(curve.line(curve.rsum), expected)
    assert curve.turns == {2: "b", 3: "b"}
    assert curve.best == (3, 8.5)


def test_the_weights_before_the_first_step_have_an_epoch_and_no_loss(tmp_path):
    rows = [{"epoch": 0, "phase": "start", "loss": "", "val_rsum": 9.0, "best": 0}]
    rows += [
        {"epoch": epoch, "phase": "x", "loss": 4.0 / epoch, "val_rsum": 8.0} for epoch in (1, 2)
    ]
    (tmp_path / "adapter.tsv").write_text(curve_tsv(rows))
    curve = read_curve(tmp_path / "adapter.tsv")
    assert curve.epochs == [0, 1, 2]
    assert curve.best == (0, 9)
    assert not curve.turns
    np.testing.assert_equal(curve.loss, [np.nan, 4, 2])
    assert (curve.trained.epochs, curve.trained.loss) == ([1, 2], [4, 2])
    (tmp_path / "vse.tsv").write_text(curve_tsv([*rows, rows[1] | {"loss": ""}]))
    with pytest.raises(WorkbenchError, match="must be finite numbers"):
        read_curve(tmp_path / "vse.tsv")


def test_errors_of_classification_and_models_that_are_fitted_at_once(tmp_path):
    rows = [{"epoch": 1, "phase": "x", "loss": 1.0, "image_error": 0.5, "val_rsum": 1.0}]
    rows += [{"epoch": 2, "phase": "y", "loss": 1.0, "val_rsum": 1.0}]
    (tmp_path / "a.tsv").write_text(curve_tsv(rows))
    np.testing.assert_equal(read_curve(tmp_path / "a.tsv").errors, {"image": [0.5, np.nan]})
    assert read_curve(tmp_path / "a.tsv").turns == {2: "y"}  # where a next phase begins
    (tmp_path / "b.tsv").write_text(curve_tsv(rows[1:]))
    assert read_curve(tmp_path / "b.tsv").errors == {}
    tries = [{"epoch": 1, "phase": "fit", "regularisation": 0.1, "val_rsum": 1.0}]
    (tmp_path / "cca.tsv").write_text(curve_tsv(tries))
    assert read_curve(tmp_path / "cca.tsv") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"epoch\tloss\tval_rsum\n", "no epoch in it"),
        (b"epoch\tvalue\n1\t2\n", "not a curve: .*loss"),
        (b"epoch\tloss\tval_rsum\n1\t2\t3\n2\tx\t3\n", "not a curve: .*'x'"),
        (b"epoch\tloss\tval_rsum\n1\t2\tinf\n", "val_rsum must be finite numbers"),
        (b"epoch\tloss\tval_rsum\tx_error\n1\t2\t3\ty\n", "not a curve: .*'y'"),
        (b"\xff\xfe\x00", "not UTF-8"),
    ],
)
def test_other_curves_are_refused(tmp_path, content, message):
    path = tmp_path / "vse.tsv"
    path.write_bytes(content)
    with pytest.raises(WorkbenchError, match=rf"vse\.tsv.*{message}"):
        read_curve(path)


@pytest.mark.parametrize(("size", "shown"), [((640, 320), (160, 80)), ((24, 16), (24, 16))])
def test_thumbnails_keep_their_shape_and_are_never_enlarged(tmp_path, size, shown):
    Image.new("RGB", size, (200, 40, 90)).save(tmp_path / "a.png")
    uri = thumbnail(Image.open(tmp_path / "a.png"))
    head, data = uri.split(",")
    assert head == "data:image/jpeg;base64"
    image = Image.open(io.BytesIO(base64.b64decode(data)))
    assert image.format == "JPEG"
    assert image.size == shown
    assert max(image.size) <= SIDE
    assert np.abs(np.asarray(image).astype(int) - (200, 40, 90)).max() < 8
    assert uri == thumbnail(Image.open(tmp_path / "a.png"))


def test_parameters_are_flat_and_hold_neither_the_place_of_a_run_nor_paths():
    training = {"lr": 0.001, "clip": None, "on": True, "layers": ["layer1", "layer2"]}
    given = {"raw": "/home/someone/flickr30k", "runtime": {"device": "cuda"}}
    assert parameters(given | {"vse": {"training": training, "weights": "a/b.pth"}}) == {
        "raw": "flickr30k",
        "vse.training.lr": "0.001",
        "vse.training.clip": "null",
        "vse.training.on": "true",
        "vse.training.layers": "[layer1, layer2]",
        "vse.weights": "a/b.pth",
    }
