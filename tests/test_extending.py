"""What docs/extending.md shows, put into a clone as it stands there: the graph runs with it."""

import json
import re

import numpy as np
import pytest
from clone import ROOT, Clone
from PIL import Image
from warm_python import warm_python

from pipeline.runtime.recipes import with_recipe
from pipeline.runtime.yaml_text import read_yaml
from stages.params import whole_type

pytestmark = pytest.mark.slow

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
    "inference": {"criteria": ["less_best"]},
    "runtime": {"threads": 1},
    "vocabulary": {"dim": 8, "epochs": 1},
    "detector": {"weights": "random"},
    "image_features": {
        "model": "three_convolutions",
        "weights": "random",
        "layers": ["middle", "last"],
        "pool": "root_mean_square",
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


def test_no_existing_file_of_python_changes():
    """A part is one new file; a model is a folder, 5 lines of dvc.yaml and a section."""
    found = pieces()
    files = [piece["file"] for piece in found if piece["file"]]
    assert len([file for file in files if not file.startswith("models/mean_words")]) == 7
    assert not [file for file in files if (ROOT / file).exists()]
    assert {piece["place"] for piece in found if piece["place"]} == {"dvc.yaml", "params.yaml"}
    graph = [piece["text"] for piece in found if piece["place"] == "dvc.yaml"]
    assert sum(text.count("\n") for text in graph) <= 5


def test_a_part_changes_the_code_of_no_stage_but_a_metric_of_those_that_measure_all(tmp_path):
    """By the lists that the stages depend on, after each part alone."""
    plain = Clone(tmp_path / "plain")
    with warm_python(tmp_path / "warm") as folder:
        plain.path.insert(0, str(folder))
        check_lists(plain)


def check_lists(plain):
    def lists():
        plain.run("python", "-m", "stages.check_params", "--output", "data/.checks/code")
        folder = plain.folder / "data/.checks/code"
        return {file.name: file.read_text() for file in folder.iterdir()}

    before = lists()
    for piece in pieces():
        if piece["file"] and not piece["file"].startswith("models/mean_words"):
            put(plain.folder, piece)
            after = lists()
            changed = {name for name in before if after[name] != before[name]}
            measures = {"compare", "evaluate", "evaluate_reranked", "tabulate_plots"}
            assert changed == (measures if "metrics/" in piece["file"] else set()), piece["file"]
            (plain.folder / piece["file"]).unlink()


def test_the_rules_of_the_house_hold_with_them(clone):
    """Folders, params.yaml and dvc.yaml fit; loss, metric and criterion equal their reference, and
    the model and the encoding keep what all of their kind promise."""
    chosen = "every_model or list or params_are or plain_line or squared_margin or networks"
    chosen += " or mrr or less_best or mean_words or first_word"
    tests = ["tests/test_architecture.py", "tests/models/losses", "tests/stages/test_params.py"]
    tests += [f"tests/pipeline/evaluation/test_{name}.py" for name in ("metrics", "criteria")]
    tests += ["tests/models/test_promises.py"]
    tests += ["tests/pipeline/features/sentences/test_promises.py"]
    said = clone.run("pytest", "-q", "-p", "no:cacheprovider", *tests, "-k", chosen)
    assert " passed" in said
    assert "failed" not in said


def test_the_graph_runs_with_all_of_them(clone):
    folder = clone.folder
    settings = SETTINGS | {"raw": str(folder / "raw")}
    params = folder / "params.yaml"
    text, _ = with_recipe(params, read_yaml(params), settings, lambda _: [])
    assert "mean_words" not in whole_type().model_fields  # this process knows nothing of them
    # a setting that the loss declares: as `-S +ranking.power=1.5` writes it
    text = re.sub(r"^ranking:.*\n", r"\g<0>  power: 1.5\n", text, flags=re.MULTILINE)
    params.write_text(text)
    for file in (folder / "metrics").glob("*.json"):
        file.unlink()  # of another corpus
    clone.run("dvc", "repro", *(f"evaluate@{model}" for model in MODELS))
    for model in MODELS:
        metrics = json.loads((folder / f"metrics/{model}.json").read_text())
        assert {"mapr", "mrr"} <= set(metrics["naive"]["i2t"])
        assert "less_best" in metrics
    # 15 test images of three colours: a caption's colour leaves 5, so that chance is 1 of 15
    trained = json.loads((folder / "metrics/mean_words.json").read_text())["naive"]["t2i"]
    assert trained["r5"] > 60
    command = ["python", "-m", "stages.compare", "--output", "table.md"]
    for model in MODELS:
        command += ["--metrics", f"metrics/{model}.json", "--ranks", f"data/ranks/{model}.h5"]
    clone.run(*command)
    table = (folder / "table.md").read_text()
    assert "squared_margin" in table
    assert "MRR" in table
