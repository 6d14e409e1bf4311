"""Files that register themselves: what a run chooses of them, and slips as one plain line."""

import ast
import os
import shutil
import subprocess
import sys

import pytest
from corpora import ROOT

import models
import models.registry
from models.registry import check_models, load_model, model_names
from pipeline.runtime.code import Sources
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.yaml_text import read_yaml
from stages.code import code_list, stage_lists
from stages.params import load_params
from stages.registries import REGISTRIES, check_registries, chosen_modules

HEAD = """from typing import ClassVar
from models.base import Model
from pipeline.runtime.section import Count, Section

"""
CONFIG = """class MineConfig(Section):
    dim: Count = 3


"""
MODEL = """class Mine(Model):
    Config = MineConfig
    NEEDS: ClassVar = {"features": "data/features/image.h5"}
"""
WHOLE = HEAD + CONFIG + MODEL


def with_config(old, new):
    return HEAD + CONFIG.replace(old, new) + MODEL


# a file in models/, and how the one line about it goes on after the file's name
SLIPS = {
    "two models": (WHOLE + MODEL.replace("Mine(", "Other("), ", line 12: holds the models Mine"),
    "no model": (HEAD + CONFIG, ": holds no model: no class has NEEDS"),
    "a type of NEEDS alone": (WHOLE.partition("NEEDS")[0] + "NEEDS: dict\n", ": holds no model"),
    "another base class": (WHOLE.replace("(Model)", ""), ", line 9: Mine has NEEDS, but is no "),
    "no Python": (WHOLE + "def f(:\n", ", line 12: invalid syntax"),
    "no Config": (WHOLE.replace("    Config = MineConfig\n", ""), ", line 9: Mine has no Config"),
    "a Config of another kind": (with_config("(Section)", ""), ", line 9: Mine has no Config"),
    "a Config that is no class": (
        WHOLE.replace("= MineConfig", "= 3"),
        ", line 9: Mine has no Config",
    ),
    "a key without a default": (
        with_config(" = 3", ""),
        ", line 9: Mine.Config: dim has no default",
    ),
    "a wrong default": (with_config(" = 3", " = 0"), ", line 9: Mine.Config: dim = 0: "),
    "an unknown type": (with_config("Count", "Conut"), ", line 6: NameError: name 'Conut' is not"),
    "a type that is no setting": (with_config("Count", "Model"), ", line 5: PydanticSchemaGenera"),
    "no type": (with_config(": Count", ""), ", line 5: PydanticUserError: A non-annotated"),
    "an import of nothing": (
        "import nowhere\n" + WHOLE,
        ", line 1: ModuleNotFoundError: No module",
    ),
}


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
    ("name", "text", "said"),
    [
        ("mine", *SLIPS["no model"]),
        ("mine", *SLIPS["an unknown type"]),
        ("mine", WHOLE, "params.yaml: mine missing"),
        ("corpus", WHOLE, "models/corpus: corpus is a section of params.yaml already"),
    ],
)
def test_a_slip_is_a_plain_line(clone, name, text, said):
    file = clone / f"models/{name}.py"
    file.write_text(text)
    done = check(clone)
    file.unlink()
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    whole = f"models/{name}.py{said}" if said[0] in ":," else said
    assert f"error: {whole}" in done.stderr.splitlines()[0], done.stderr
    assert not (clone / "params.ok").exists()


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A folder that holds all models there are."""
    monkeypatch.setattr(models.registry, "FOLDER", tmp_path)
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(tmp_path)])
    return tmp_path


@pytest.mark.parametrize("slip", SLIPS)
def test_what_is_no_model_is_a_line_of_its_file(shelf, slip):
    name = f"spoilt_{list(SLIPS).index(slip)}"  # a module is imported once
    text, said = SLIPS[slip]
    file = shelf / f"{name}.py"
    file.write_text(text)
    with pytest.raises(WorkbenchError) as caught:
        load_model(name)
    assert caught.value.message.startswith(f"{file}{said}"), caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [("def f(:\n", "invalid syntax"), ("x = 1\n1 / x.size\n", "AttributeError: 'int' object")],
)
def test_a_slip_in_a_file_of_its_folder_is_a_line_of_that_file(shelf, text, said):
    name = f"spoilt_folder_{len(text)}"
    (shelf / name).mkdir()
    (shelf / name / "__init__.py").write_text("")
    (shelf / name / "model.py").write_text(f"import models.{name}.network\n{WHOLE}")
    (shelf / name / "network.py").write_text(text)
    with pytest.raises(WorkbenchError) as caught:
        load_model(name)
    line = len(text.splitlines())
    assert caught.value.message.startswith(f"{shelf}/{name}/network.py, line {line}: {said}")


def test_a_model_is_the_class_with_needs_whatever_it_is_called(shelf):
    """Beside classes and functions that it uses."""
    (shelf / "whole_one.py").write_text(WHOLE + "class Layer(Model): ...\ndef helper(): ...\n")
    (shelf / "whole_two").mkdir()
    (shelf / "whole_two" / "__init__.py").write_text("")
    optional = WHOLE.replace("Count = 3", "CountOrNone = None").replace("Count,", "CountOrNone,")
    (shelf / "whole_two" / "model.py").write_text(optional)
    (shelf / "_helper.py").write_text("")
    assert model_names() == ["whole_one", "whole_two"]
    check_models()
    assert [load_model(name).__name__ for name in model_names()] == ["Mine", "Mine"]


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
    through = list(REGISTRIES.values())

    def chosen(*keys, files=through, **changes):
        return set(chosen_modules(files, keys, params.model_copy(update=changes)))

    assert chosen("loss", files=[]) == set()
    always = chosen()  # what a stage may load whichever sections it reads
    assert "models.backbone.poolings.mean_max" in always
    assert chosen("loss") - always == {"models.losses.sum_margin"}
    warmed = {"models.losses.sum_margin", "models.losses.knn_margin"}
    assert chosen("loss", loss="knn_margin") - always == warmed
    first, *others = params.dual_path.phases
    phases = (first.model_copy(update={"loss": "knn_margin"}), *others)
    of_phase = params.dual_path.model_copy(update={"phases": phases})
    assert chosen("loss", dual_path=of_phase) - always == warmed
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


def test_evaluate_may_load_thirty_files_and_no_network(monkeypatch):
    monkeypatch.chdir(ROOT)
    keys = stage_lists(read_yaml(ROOT / "dvc.yaml"))["evaluate"]
    files = [
        line.split()[0]
        for line in code_list(Sources(), "evaluate", keys, load_params()).splitlines()
    ]
    assert len(files) <= 30, "the list of data/.checks/code/evaluate has grown"
    assert not [file for file in files if file.startswith("models/")]
