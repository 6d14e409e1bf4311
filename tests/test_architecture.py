"""The rules of the house that a reader cannot see in one file: who imports whom, that every stage
depends on the list of its code, and that nothing is named in one place alone."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from first_party import PACKAGES, imported, libraries

from models.base.registry import config_of, model_names, models_with
from models.phrases.models import PHRASE_MODELS
from pipeline.runtime.graph import resolved_stage, stage_items
from pipeline.runtime.yaml_text import read_yaml
from stages.params import Params

ROOT = Path(__file__).resolve().parents[1]
# The graph with an item of every group: params.yaml itself has no other programs and no index.
FOLDER = TemporaryDirectory()
GRAPH = Path(FOLDER.name) / "dvc.yaml"
GRAPH.write_bytes((ROOT / "dvc.yaml").read_bytes())
VALUES = (ROOT / "params.yaml").read_text()
(Path(FOLDER.name) / "params.yaml").write_text(
    VALUES.replace("external: {}", "external: {mine: {folder: mine, scores: my.npy}}")
    .replace("  index: flat\n", "  index: hnsw\n")
    .replace("  models: []", "  models: [vse]")
)

SHARED = ("__init__.py", "code.py", "params.py", "registries.py")  # of stages, no stage
SETTINGS = ("loss", "ranking", "seed")  # what models read beside their sections
LISTS = "data/.checks/code/"
BELOW = ("pipeline", "models", "stages")  # the packages that decide results

MAY_IMPORT = {
    "pipeline": {"pipeline"},
    "models": {"models", "pipeline"},
    "stages": {"stages", "pipeline", "models"},
    "vse_workbench": {"vse_workbench", "stages", "pipeline", "models"},
}
COMMANDS = ("stages", "vse_workbench/commands")  # a command in every file, and click nowhere else
# Tensors in, tensors out: networks and losses know no files.
NETWORKS = ("network.py", "loss.py")
TORCH_ONLY = (
    "models/layers",
    "models/losses",
    "models/ranking/hinges.py",
    "models/ranking/loss.py",
    "models/ranking/pairs.py",
    "models/attention/cosines.py",
)
# The types of the settings that a loss declares.
TYPES = "pipeline.runtime.section"
PLAIN = {
    "abc",
    "copy",
    "torch",
    "math",
    "collections",
    "typing",
    "dataclasses",
    "itertools",
    "models",
    "functools",
}


def sources(package):
    return sorted((ROOT / package).rglob("*.py"))


@cache
def resolved(name, item, graph):
    return resolved_stage(name, item, graph)


@cache
def stages():
    """(stage name, item or None) of the whole graph."""
    names = read_yaml(GRAPH)["stages"]
    return [(name, item) for name in names for item in (stage_items(name, GRAPH) or [None])]


STAGES = [pytest.param(*stage, id="@".join(filter(None, stage))) for stage in stages()]


def program(name, item):
    """The module of `stages` that a stage runs: its own, but for those of evaluate."""
    return resolved(name, item, GRAPH)["cmd"].split()[2].removeprefix("stages.")


def outputs_of(stage):
    return [
        next(iter(out)) if isinstance(out, dict) else out
        for kind in ("outs", "plots", "metrics")
        for out in stage.get(kind, [])
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package):
    for file in sources(package):
        outside = {module.split(".")[0] for module in imported(ROOT, file)} - MAY_IMPORT[package]
        assert not outside, f"{file.relative_to(ROOT)} must not import {sorted(outside)}"


@pytest.mark.parametrize("package", PACKAGES)
def test_click_is_for_commands(package):
    for file in sources(package):
        place = file.relative_to(ROOT).as_posix()
        if not place.startswith(tuple(f"{folder}/" for folder in COMMANDS)):
            assert "click" not in libraries(file), f"{place} must not import click"


@pytest.mark.parametrize("folder", COMMANDS)
def test_a_folder_of_commands_holds_nothing_else(folder):
    for file in sources(folder):
        if file.name not in SHARED:
            made = "\n@command\n" in file.read_text() or "click" in libraries(file)
            assert made, f"{file.relative_to(ROOT)} is no command"


def test_networks_and_losses_know_no_files():
    files = {file for place in TORCH_ONLY for file in sorted((ROOT / place).rglob("*.py"))}
    files |= {ROOT / place for place in TORCH_ONLY if place.endswith(".py")}
    files |= {ROOT / f"models/{name}/{file}" for name in model_names() for file in NETWORKS}
    # the registry of the losses imports them by their names
    files.discard(ROOT / "models/losses/__init__.py")
    for file in filter(Path.is_file, sorted(files)):
        spare = libraries(file) - PLAIN
        if {module for module in imported(ROOT, file) if module.startswith("pipeline")} == {TYPES}:
            spare.discard("pipeline")
        assert not spare, f"{file.relative_to(ROOT)} must not import {sorted(spare)}"


@pytest.mark.parametrize(("name", "item"), STAGES)
def test_a_stage_depends_on_the_list_of_its_code_and_names_none(name, item):
    deps = resolved(name, item, GRAPH)["deps"]
    if name == "check_params":  # lists the code of all others
        assert set(deps) == {"params.yaml", *BELOW}
        return
    assert not [dep for dep in deps if dep.split("/")[0] in PACKAGES]
    own = program(name, item)
    lists = [dep.removeprefix(LISTS) for dep in deps if dep.startswith(LISTS)]
    assert lists in ([own], [f"{own}@{item}"])


def test_check_params_writes_every_list():
    needed = {
        dep
        for name, item in stages()
        for dep in resolved(name, item, GRAPH)["deps"]
        if dep.startswith(LISTS)
    }
    assert set(resolved("check_params", None, GRAPH)["outs"]) == needed


@pytest.mark.parametrize(("name", "item"), STAGES)
def test_params_are_those_the_stage_reads(name, item):
    """Attributes of the variable `params` in a stage, and of `settings` in a model, by section."""
    stage = resolved(name, item, GRAPH)
    whole = name in ("check_params", "compare")  # the report lists every parameter
    assert ("params.yaml" in stage["deps"]) == whole
    if whole:
        assert not stage.get("params")
        return
    read = attributes(ROOT / f"stages/{program(name, item)}.py", "params")
    if name in ("train", "train_phrases"):  # params.model(name): what the model reads of it
        read = read - {"model"} | {item, *SETTINGS}
        place = f"models/{item}/model.py" if name == "train" else PHRASE_MODELS.file(item)
        assert attributes(ROOT / place, "settings") <= {*SETTINGS, "config", "used"}
    read.discard("runtime")  # where a run takes place, not what it computes
    read.discard("origins")  # refuses features that do not belong, and computes nothing
    unknown = read - set(Params.model_fields)
    assert not unknown, f"{name}: params.yaml has no {sorted(unknown)}"
    listed = {param.split(".")[0] for param in stage.get("params", [])}
    assert read == listed, f"{name}: reads {sorted(read)}, dvc.yaml lists {sorted(listed)}"


def attributes(file, variable):
    """Names that are looked up on a variable in a file."""
    return {
        node.attr
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == variable
    }


def above(path):
    """The folders that a path lies in."""
    return {parent.as_posix() for parent in Path(path).parents}


@pytest.mark.parametrize(("name", "item"), STAGES)
def test_commands_name_their_files(name, item):
    """Each path in a command is a declared dep or output, or lies beside one, or holds outputs;
    outputs or their folders are named."""
    stage = resolved(name, item, GRAPH)
    outputs, words = outputs_of(stage), stage["cmd"].split()
    paths = {word for word in words if re.match(r"(data|metrics|report)(/|$)", word)}
    declared = set(stage["deps"]) | set(outputs)
    made_together = {
        other
        for producer, at in stages()
        if set(outs := outputs_of(resolved(producer, at, GRAPH))) & set(stage["deps"])
        for other in outs
    }
    spare = paths - declared - made_together - set().union(*map(above, outputs))
    assert not spare, f"{name}: undeclared {sorted(spare)}"
    assert all(({out} | above(out)) & paths for out in outputs)


def test_every_model_is_in_the_graph():
    """A folder with a model.py is a model: params.yaml, dvc.yaml, search and plots have it."""
    names = model_names()
    for stage in ("train", "score", "evaluate"):
        assert stage_items(stage, GRAPH) == names, f"items of {stage} in dvc.yaml"
    assert stage_items("record_attention", GRAPH) == models_with("attention", "attention")
    assert models_with("model", "prepare") == models_with("model", "scorer") == names
    values = read_yaml(ROOT / "params.yaml")
    for name in names:
        assert name in values, f"params.yaml has no section {name}"
        assert Params.model_fields[name].annotation is config_of(name)
    drawn = next(iter(read_yaml(GRAPH)["plots"][0].values()))["y"]
    assert {Path(file).stem for file in drawn} <= set(names) - {"cca"}  # one row, no curve


def test_every_model_of_phrases_is_in_the_graph():
    for stage in ("train_phrases", "evaluate_phrases"):
        assert stage_items(stage, GRAPH) == sorted(PHRASE_MODELS), f"items of {stage} in dvc.yaml"
    assert set(PHRASE_MODELS) <= set(Params.model_fields)


def test_data_paths_live_in_the_graph_only():
    for package in PACKAGES:
        for file in sources(package):
            if file == ROOT / "stages/common.py":
                continue
            found = [
                path for path in data_paths(file) if path != Params.model_fields["raw"].default
            ]
            assert not found, f"{file.relative_to(ROOT)} names {found}"


def data_paths(file):
    """Strings that begin like a path of an artefact, parts of f-strings too, docstrings apart."""
    tree = ast.parse(file.read_text())
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documents
        and re.match(r"(data|metrics|report)/", node.value)
    ]


def test_a_path_in_an_f_string_is_seen(tmp_path):
    (tmp_path / "m.py").write_text('"""data/x is fine here."""\nx = f"data/scores/{name}.h5"\n')
    assert data_paths(tmp_path / "m.py") == ["data/scores/"]


def test_no_output_switches_the_run_cache_off():
    """`cache: false` on an out disables a stage's run cache; `persist` leaks earlier results."""
    for name, item in stages():
        for out in resolved(name, item, GRAPH).get("outs", []):
            assert isinstance(out, str), f"{out}: outs take no options"


def test_no_stage_depends_on_a_part_of_an_output():
    """DVC cannot restore such a stage from its cache of runs where the committed settings never
    ran: it looks for the committed version of the whole folder."""
    outs = {out for name, item in stages() for out in outputs_of(resolved(name, item, GRAPH))}
    for name, item in stages():
        for dep in resolved(name, item, GRAPH)["deps"]:
            assert not above(dep) & outs, f"{name}: {dep} lies in {above(dep) & outs}"


def test_packages_are_installed_and_committed():
    """A package that git ignores is there for its author alone: a clone cannot be installed."""
    for package in PACKAGES:
        for folder in {file.parent for file in sources(package)}:
            assert (folder / "__init__.py").is_file(), f"{folder} is no package"
    ignored = subprocess.run(
        ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "--", *PACKAGES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert [path for path in ignored.splitlines() if "__pycache__" not in path] == []
