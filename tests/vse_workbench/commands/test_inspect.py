"""`vse inspect` on whole and damaged files: the truth, or one plain message and exit code 1."""

import json
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest
from commands import run_command
from corpora import write_corpus
from PIL import Image

from pipeline.evaluation.score_file import SplitScores, write_scores
from pipeline.features.feature_file import FeatureFile, write_features
from pipeline.features.regions.file import ImageRegions, pad_regions
from vse_workbench.commands.inspect import main

inspect = partial(run_command, main)
GRAPH = "stages: {extract_region_features: {cmd: true --images corpus/images.parquet}}\n"


def feature_file(path: Path) -> Path:
    rng = np.random.default_rng(0)
    arrays = {
        "features": rng.normal(size=(9, 2, 6)).astype(np.float16),
        "boxes": rng.uniform(size=(9, 2, 4)).astype(np.float32),
    }
    attributes = {"model": "resnet18", "params": json.dumps({"size": 128}), "layer": "layer1"}
    write_features(path, [f"id{number}" for number in range(9)], arrays, attributes)
    return path


def score_file(path: Path) -> Path:
    scores = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    split = SplitScores(scores, list("abc"), list("vwxyz"), list("aabcc"), list("abc"))
    write_scores(path, {"val": split, "test": split}, {"model": "vse"})
    return path


def test_a_whole_file_is_shown(tmp_path: Path) -> None:
    path = feature_file(tmp_path / "image.h5")
    assert "size: 128" in inspect(path).stdout
    assert "row 4 of 9" in inspect(path, "--id", "id4").stdout
    near = inspect(path, "--neighbours", "id4").stdout.splitlines()
    assert len(near) == 8
    assert "3 datasets checked" in inspect(path, "--verify").stdout
    for option in ("--id", "--neighbours"):
        said = inspect(path, option, "id44").stderr
        assert said == f"error: {path}: no id 'id44' among its 9; near it: id4, id8, id7\n"
        assert "among its 9; the first: id0, id1, id2\n" in inspect(path, option, "nope.jpg").stderr
    shown = inspect(path, "--json", "--verify", "--neighbours", "id4")
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    assert (found["ids"], found["verified"]) == (9, 3)
    assert [f"{cosine:8.5f}  {name}" for name, cosine in found["neighbours"]] == near
    assert found["attributes"]["params"] == {"size": 128}
    values = FeatureFile(path).load("features").astype(np.float64)
    assert found["datasets"]["features"]["shape"] == [9, 2, 6]
    assert found["datasets"]["features"]["mean"] == pytest.approx(values.mean())
    assert inspect(path, "--json", "--id", "id4").returncode == 1


def content(path: Path) -> dict[str, object]:
    """Everything in a file that a reader could get, through h5py alone."""
    found: dict[str, object] = {}

    def visit(name: str, node: h5py.Group | h5py.Dataset) -> None:
        found[name] = [node[()].tobytes(), node.dtype] if isinstance(node, h5py.Dataset) else None
        found[f"{name} attributes"] = {key: str(value) for key, value in node.attrs.items()}

    with h5py.File(path) as file:
        visit("", file)
        file.visititems(visit)
    return found


@pytest.mark.parametrize("make", [feature_file, score_file])
def test_every_damage_is_found_or_harmless(tmp_path: Path, make) -> None:
    path = make(tmp_path / "file.h5")
    whole, expected = path.read_bytes(), content(path)
    rng, found = np.random.default_rng(0), 0
    for _ in range(150):
        damaged = bytearray(whole)
        if rng.random() < 0.1:
            del damaged[rng.integers(len(whole)) :]
        elif rng.random() < 0.7:
            damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        else:
            place, length = rng.integers(len(whole) - 8), rng.integers(1, 9)
            damaged[place : place + length] = rng.bytes(length)
        path.write_bytes(damaged)
        result = inspect(path, "--verify")
        if result.returncode == 0:
            assert content(path) == expected
            continue
        found += 1
        assert result.returncode == 1
        assert result.stderr.startswith("error: ")
        assert path.name in result.stderr
        assert len(result.stderr.splitlines()) <= 2
        for mode in ([], ["--id", "id3"], ["--neighbours", "id3"]):
            assert inspect(path, *mode).returncode in (0, 1)
    assert found > 20


def test_what_is_no_feature_file_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "text.h5").write_bytes(b"hello " * 500)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.ones(3)
    for path in (tmp_path / "text.h5", tmp_path / "other.h5", tmp_path / "absent.h5", tmp_path):
        result = inspect(path)
        assert result.returncode == 1
        assert result.stderr.startswith(f"error: {path}")
    assert result.stderr.endswith(": is a folder; name a file in it: other.h5, text.h5\n")
    (tmp_path / "README.md").write_text("words")
    assert "name a file that ends in .h5" in inspect(tmp_path / "README.md").stderr


def region_world(folder: Path, **attributes: object) -> Path:
    """A corpus of one grey image and a file with one red-labelled region of it, half its size."""
    row = ["a.png", str(folder / "a.png"), "train", "a.png", 40, 20, "0" * 64]
    Image.new("RGB", (40, 20), "grey").save(folder / "a.png")
    write_corpus(folder / "corpus", [row])
    (folder / "dvc.yaml").write_text(GRAPH)
    found = ImageRegions(
        (80, 40),  # twice the size of the file that is there: boxes are scaled
        np.array([[20, 10, 60, 30]], np.float32),
        np.ones((1, 3), np.float32),
        *(np.array([0]), np.array([-1]), np.array([0.5], np.float32), np.array([0], np.float32)),
    )
    described = {"object_names": '["cat"]', "attribute_names": "[]", "has_boxes": 1}
    write_features(folder / "r.h5", ["a.png"], pad_regions([found], 2, 3), described | attributes)
    return folder / "r.h5"


def test_the_picture_shows_boxes_where_they_are(tmp_path: Path) -> None:
    path, out = region_world(tmp_path), tmp_path / "out.png"
    result = inspect(path, "--id", "a.png", "--picture", out, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    pixels = np.array(Image.open(out).convert("RGB")).astype(int)
    area = pixels[:450, :900]
    assert (area[5, 5] == 128).all()
    changed = np.argwhere((area != 128).any(2))
    top, left = changed.min(0)
    bottom, right = changed.max(0)
    # a quarter and three quarters of 900 x 450, give or take the width of the line
    for found, expected in ((left, 225), (right, 675), (top, 112), (bottom, 338)):
        assert abs(found - expected) <= 4
    assert (pixels[:, 900:] < 100).any()  # the list is not empty


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["r.h5", "--picture", "out.png"], "--picture needs --id"),
        (["r.h5", "--id", "a.png", "--picture", "out.jpg"], "written as .png"),
        (["r.h5", "--id", "b.png", "--picture", "out.png"], "no id 'b.png'"),
        (["image.h5", "--id", "id1", "--picture", "out.png"], "not a file of regions"),
        (["bare/r.h5", "--id", "a.png", "--picture", "out.png"], "no boxes"),
    ],
)
def test_pictures_that_cannot_be_drawn(tmp_path, monkeypatch, arguments, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    region_world(tmp_path)
    (tmp_path / "bare").mkdir()
    region_world(tmp_path / "bare", has_boxes=0)
    feature_file(tmp_path / "image.h5")
    result = inspect(*arguments)
    assert result.returncode == 1
    assert words in result.stderr
    assert not Path("out.png").exists()


def test_an_image_without_a_file_has_no_picture(tmp_path: Path) -> None:
    path = region_world(tmp_path)
    write_corpus(tmp_path / "corpus", [["a.png", "", "train", "a.png", 40, 20, ""]])
    result = inspect(path, "--id", "a.png", "--picture", "out.png", folder=tmp_path)
    assert result.returncode == 1
    assert "image a.png: the corpus has no photograph of it, only features" in result.stderr
    assert "set raw in params.yaml to a folder with the photographs" in result.stderr
