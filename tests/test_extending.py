"""What docs/extending.md shows, put into a clone as it stands there: the graph runs with it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from clone import Clone
from PIL import Image
from warm_python import warm_python

from pipeline.runtime.recipes import overlay
from stages.params import Params

ROOT = Path(__file__).resolve().parents[1]
PIECE = re.compile(
    r"^(?:File `(?P<file>[^`]+)`"
    r"|Lines? in `(?P<place>[^`]+)` (?P<side>after|before) `(?P<at>[^`]+)`)"
    r":\n\n```\w+\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220)}
SETTINGS = {
    "dataset": "tab_lines",
    "loss": "squared_margin",
    "runtime": {"threads": 1},
    "vocabulary": {"dim": 8, "epochs": 1},
    "detector": {"weights": "random"},
    "image_features": {
        "model": "three_convolutions",
        "weights": "random",
        "layers": ["middle", "last"],
        "size": 32,
        "workers": 0,
    },
    "sentences": {"encoding": "first_word"},
    "two_branch": {"training": {"epochs": 2, "batch_size": 16}},
    "mean_words": {"training": {"epochs": 4, "batch_size": 16}},
    "evaluation": {"bootstrap": 20},
}
MODELS = ["mean_words", "two_branch"]


def pieces():
    return [match.groupdict() for match in PIECE.finditer((ROOT / "docs/extending.md").read_text())]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The committed files with every piece of the document put where it says."""
    clone = Clone(tmp_path_factory.mktemp("extended") / "workbench")
    for piece in pieces():
        put(clone.folder, piece)
    write_images(clone.folder / "raw")
    clone.run("git", "init", "--quiet")
    with warm_python(tmp_path_factory.mktemp("warm") / "bin") as folder:
        clone.path.insert(0, str(folder))
        yield clone


def put(folder, piece):
    if piece["file"]:
        target = folder / piece["file"]
        target.parent.mkdir(exist_ok=True)
        target.write_text(piece["text"])
        return
    target = folder / piece["place"]
    lines = target.read_text().splitlines(keepends=True)
    places = [n for n, line in enumerate(lines) if line.rstrip("\n") == piece["at"]]
    assert len(places) == 1, f"{piece['place']}: {piece['at']!r} stands there {len(places)} times"
    lines.insert(places[0] + (piece["side"] == "after"), piece["text"])
    target.write_text("".join(lines))


def write_images(folder):
    folder.mkdir()
    generator, lines = np.random.default_rng(0), []
    for number in range(60):
        colour = list(COLOURS)[number % 3]
        pixels = generator.integers(0, 40, (32, 32, 3)) + np.array(COLOURS[colour]) - 20
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{number:02}.png")
        split = "train" if number < 36 else "val" if number < 45 else "test"
        lines += [f"{split}\t{number:02}.png\t{colour} {noun}\n" for noun in ("square", "picture")]
    (folder / "captions.tsv").write_text("".join(lines))


def test_every_part_is_a_file_and_a_line():
    """One file and one line each; a model is a folder, 8 lines of dvc.yaml and a section."""
    found = pieces()
    lines = [piece for piece in found if piece["place"] and piece["place"].endswith(".py")]
    files = [piece["file"] for piece in found if piece["file"]]
    single = [file for file in files if not file.startswith("models/mean_words/")]
    assert len(single) == len(lines) == 5
    assert all(piece["text"].count("\n") == 1 for piece in lines)
    graph = [piece["text"] for piece in found if piece["place"] == "dvc.yaml"]
    assert sum(text.count("\n") for text in graph) <= 8


def test_the_rules_of_the_house_hold_with_them(clone):
    """Folders, registries, params.yaml and dvc.yaml fit; loss and metric equal their reference."""
    chosen = "every_model or deps_are or params_are or plain_line or squared_margin or networks"
    chosen += " or rprec"
    tests = ["tests/test_architecture.py", "tests/models/losses", "tests/stages/test_params.py"]
    tests += ["tests/pipeline/evaluation/test_metrics.py"]
    said = clone.run("pytest", "-q", "-p", "no:cacheprovider", *tests, "-k", chosen)
    assert "squared_margin" not in said  # nothing failed
    assert "rprec" not in said
    assert " passed" in said


def test_the_graph_runs_with_all_of_them(clone):
    folder = clone.folder
    settings = SETTINGS | {"raw": str(folder / "raw")}
    text, _ = overlay(folder / "params.yaml", settings, lambda _: [])
    assert "mean_words" not in Params.model_fields  # this process knows nothing of them
    (folder / "params.yaml").write_text(text)
    for file in (folder / "metrics").glob("*.json"):
        file.unlink()  # of another corpus
    clone.run("dvc", "repro", *(f"evaluate@{model}" for model in MODELS))
    for model in MODELS:
        metrics = json.loads((folder / f"metrics/{model}.json").read_text())
        assert {"mapr", "rprec"} <= set(metrics["naive"]["i2t"])
    # 15 test images of three colours: a caption's colour leaves 5, so that chance is 1 of 15
    trained = json.loads((folder / "metrics/mean_words.json").read_text())["naive"]["t2i"]
    assert trained["r5"] > 60
    command = ["python", "-m", "stages.compare", "--output", "table.md"]
    for model in MODELS:
        command += ["--metrics", f"metrics/{model}.json", "--ranks", f"data/ranks/{model}.h5"]
    clone.run(*command)
    table = (folder / "table.md").read_text()
    assert "squared_margin" in table
    assert "R-Prec" in table
