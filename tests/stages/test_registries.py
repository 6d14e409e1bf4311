"""Files that register themselves: what a run chooses of them, and slips as one plain line."""

import ast
import os
import shutil
import subprocess
import sys

import pytest
from corpora import ROOT

from pipeline.runtime.code import Sources
from stages.code import code_list
from stages.params import load_params
from stages.registries import REGISTRIES, check_registries, chosen_modules

MODEL = "def prepare(): ...\ndef scorer(): ...\n"
PARAMS = "from pipeline.runtime.section import Section\nCONFIG = Section\n"


def model_files(name, model=MODEL):
    texts = {"__init__": "", "model": model, "params": PARAMS}
    return {f"models/{name}/{stem}.py": text for stem, text in texts.items()}


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spoilt")
    for name in ("pipeline", "models", "stages"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "data/raw", folder / "data/raw")
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, folder)
    return folder


def check(folder):
    return subprocess.run(
        [sys.executable, "-m", "stages.check_params", "--output", "params.ok"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"models/mine/__init__.py": "", "models/mine/model.py": MODEL},
            "models/mine/params.py: missing; the folder has a model.py, so that it is a model",
        ),
        (model_files("mine", ""), "models/mine/model.py: offers no prepare and no scorer"),
        (model_files("mine"), "params.yaml: mine missing"),
        (model_files("corpus"), "models/corpus: corpus is a section of params.yaml already"),
    ],
)
def test_a_slip_is_a_plain_line(clone, files, said):
    for name, text in files.items():
        (clone / name).parent.mkdir(exist_ok=True)
        (clone / name).write_text(text)
    done = check(clone)
    for name in files:
        (clone / name).unlink()
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert any(said in line for line in done.stderr.splitlines()[:2]), done.stderr
    assert not (clone / "params.ok").exists()


def test_every_entry_is_right_and_every_registry_is_known():
    check_registries()
    assert {registry.package for registry in REGISTRIES} == {
        node.args[0].value
        for folder in ("pipeline", "models")
        for file in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Registry"
    }


def test_a_run_chooses_its_entries_alone(monkeypatch):
    monkeypatch.chdir(ROOT)
    params = load_params(models=None)
    through = [use[0] for use in REGISTRIES.values() if use]

    def chosen(*keys, files=through, **changes):
        return set(chosen_modules(files, keys, params.model_copy(update=changes)))

    assert chosen("loss", files=[]) == set()
    always = chosen()  # what a stage may load whichever sections it reads
    assert "models.backbone.poolings.mean_max" in always
    assert chosen("loss") - always == {"models.losses.sum_margin"}
    warmed = {"models.losses.sum_margin", "models.losses.knn_margin"}
    assert chosen("loss", loss="knn_margin") - always == warmed
    assert chosen("dataset") - always == {"pipeline.corpus.readers.shapes"}
    criteria = {"naive", *params.inference.criteria}
    assert chosen("inference") - always == {
        f"pipeline.evaluation.criteria.{name}" for name in criteria
    }


def test_a_stage_that_imports_no_features_depends_on_no_format(monkeypatch):
    monkeypatch.chdir(ROOT)
    params = load_params()
    formats = ("pipeline/features/matching/images.py", "pipeline/features/arrays/npy.py")

    def listed(source):
        images = params.image_features.model_copy(update={"source": source})
        now = params.model_copy(update={"image_features": images})
        lines = code_list(Sources(), "extract_image_features", ["image_features"], now)
        return {line.split()[0] for line in lines.splitlines()}

    assert not listed("network") & set(formats)
    assert listed("file") - listed("network") > set(formats)
