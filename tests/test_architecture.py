"""The rules of the house that a reader cannot see in one file: who imports whom, that every stage
depends on the list of its code, and that nothing is named in one place alone."""

import ast
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from clone import ROOT
from first_party import PACKAGES, imported, libraries

from models.phrases import PHRASE_MODELS
from models.registry import load_model, model_names, models_that
from pipeline.runtime.graph import resolved_stage, stage_items, stages_of_models
from pipeline.runtime.yaml_text import read_yaml
from stages.common import NAMED
from stages.params import whole_type
from vse_workbench.search.embedder import PRODUCERS

# The graph with an item of every group: params.yaml itself has no other programs and no index.
FOLDER = TemporaryDirectory()
GRAPH = Path(FOLDER.name) / "dvc.yaml"
GRAPH.write_bytes((ROOT / "dvc.yaml").read_bytes())
VALUES = (ROOT / "params.yaml").read_text()
(Path(FOLDER.name) / "params.yaml").write_text(
    VALUES.replace("external: {}", "external: {mine: {folder: mine, scores: my.npy}}")
    .replace("more_models: {}", "more_models: {adapter: {}, zero_shot: {}}")
    .replace("  index: flat\n", "  index: hnsw\n")
    .replace("  models: []", "  models: [vse]")
)

SHARED = ("__init__.py", "code.py", "params.py", "registries.py")  # of stages, no stage
SETTINGS = ("loss", "ranking", "seed")  # what models read beside their sections
TRAINING = ("train", "train_more", "train_phrases")  # stages that train a model
LISTS = "data/.checks/code/"
BELOW = ("pipeline", "models", "stages")  # the packages that decide results

MAY_IMPORT = {
    "pipeline": {"pipeline"},
    "models": {"models", "pipeline"},
    "stages": {"stages", "pipeline", "models"},
    "vse_workbench": {"vse_workbench", "stages", "pipeline", "models"},
}
COMMANDS = ("stages", "vse_workbench/commands")  # a command in every file, and click nowhere else
# Tensors in, tensors out: layers and losses know no files.
TORCH_ONLY = (
    "models/layers",
    "models/losses",
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
def test_commands_lie_in_two_folders_and_nothing_else_does(package):
    for file in sources(package):
        inside = file.parent in [ROOT / folder for folder in COMMANDS]
        made = "\n@command\n" in file.read_text() or "click" in libraries(file)
        if not inside or file.name not in SHARED:
            place = file.relative_to(ROOT)
            assert made == inside, f"{place}: a file uses click where it is a command"


def test_layers_and_losses_know_no_files():
    files = {file for place in TORCH_ONLY for file in sorted((ROOT / place).rglob("*.py"))}
    files |= {ROOT / place for place in TORCH_ONLY if place.endswith(".py")}
    # the registry of the losses imports them by their names
    files.discard(ROOT / "models/losses/__init__.py")
    for file in filter(Path.is_file, sorted(files)):
        spare = libraries(file) - PLAIN
        if {module for module in imported(ROOT, file) if module.startswith("pipeline")} == {TYPES}:
            spare.discard("pipeline")
        assert not spare, f"{file.relative_to(ROOT)} must not import {sorted(spare)}"


def test_a_stage_depends_on_the_list_of_its_code_and_names_none():
    """check_params writes all lists, and depends on all code."""
    first, *others = stages()
    needed = set()
    for name, item in others:
        deps = resolved(name, item, GRAPH)["deps"]
        assert not [dep for dep in deps if dep.split("/")[0] in PACKAGES]
        own = program(name, item)
        lists = [dep.removeprefix(LISTS) for dep in deps if dep.startswith(LISTS)]
        assert lists in ([own], [f"{own}@{item}"])
        needed |= {LISTS + lists[0]}
    assert first == ("check_params", None)
    writes = resolved(*first, GRAPH)
    assert set(writes["deps"]) == {"params.yaml", *BELOW, NAMED.as_posix()}
    assert set(writes["outs"]) == needed


@pytest.mark.parametrize(("name", "item"), STAGES)
def test_params_are_those_the_stage_reads(name, item):
    """Attributes of the variable `params` in a stage, by section; what stages of models read of it
    through `run_of` and the model's own section is listed here."""
    stage = resolved(name, item, GRAPH)
    whole = name in ("check_params", "compare")  # the report lists every parameter
    assert ("params.yaml" in stage["deps"]) == whole
    if whole:
        assert not stage.get("params")
        return
    read = attributes(ROOT / f"stages/{program(name, item)}.py", "params")
    if name in TRAINING:  # run_of(params), and the section of the model
        read |= {item, "training", *SETTINGS}
    if name == "evaluate_reranked":  # through it the same evaluation
        read |= attributes(ROOT / "stages/evaluate.py", "params")
    read.discard("runtime")  # where a run takes place, not what it computes
    read.discard("origins")  # refuses features that do not belong, and computes nothing
    unknown = read - set(whole_type().model_fields)
    assert not unknown, f"{name}: params.yaml has no {sorted(unknown)}"
    listed = {param.split(".")[0] for param in stage.get("params", [])}
    assert read == listed, f"{name}: reads {sorted(read)}, dvc.yaml lists {sorted(listed)}"


def attributes(file, variable):
    return {
        node.attr
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == variable
    }


def above(path):
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
    """A file of a model is enough: params.yaml and dvc.yaml have it, with the files it needs."""
    names = model_names()
    further = ["adapter", "zero_shot"]
    for program in ("train", "score", "evaluate"):
        usual, more = (stage_items(stage, GRAPH) for stage in stages_of_models(program))
        assert more == further, "those of more_models, above"
        assert sorted([*usual, *more]) == names, f"items of {program} in dvc.yaml"
        assert stage_items(f"{program}_more", ROOT / "dvc.yaml") == [], "none in the default run"
    assert stage_items("record_attention", GRAPH) == models_that(lambda kind: kind.attends())
    values = read_yaml(ROOT / "params.yaml")
    for name in names:
        assert name in values, f"params.yaml has no section {name}"
        assert whole_type().model_fields[name].annotation is load_model(name).Config
        command = resolved("train_more" if name in further else "train", name, GRAPH)["cmd"].split()
        needs = load_model(name).NEEDS
        assert needs == {key: command[command.index(f"--{key}") + 1] for key in needs}
        given = {word for word in command if word.startswith("data/features/")}
        assert given <= set(needs.values()), f"{name}: NEEDS lacks {given - set(needs.values())}"
    for stage in ("train_phrases", "evaluate_phrases"):
        assert stage_items(stage, GRAPH) == sorted(PHRASE_MODELS), f"items of {stage} in dvc.yaml"
    assert set(PHRASE_MODELS) <= set(whole_type().model_fields)


def test_what_queries_go_through_is_made_where_the_corpus_was():
    for key, producer in PRODUCERS.items():
        made = outputs_of(resolved(producer.stage, None, GRAPH))
        assert producer.made in made, f"{key}: {producer.stage} makes {made}"
        assert f"--{producer.option} " in resolved(producer.stage, None, GRAPH)["cmd"]


def test_data_paths_live_in_the_graph_only():
    for package in PACKAGES:
        for file in sources(package):
            # the second remembers what it has read of the sources, for all stages
            if file in (ROOT / "stages/common.py", ROOT / "pipeline/runtime/code.py"):
                continue
            found = [
                path
                for path in data_paths(file)
                if path != whole_type().model_fields["raw"].default
            ]
            assert not found, f"{file.relative_to(ROOT)} names {found}"


def data_paths(file):
    """Strings that begin like a path of an artefact, parts of f-strings too; docstrings apart, and
    what a model NEEDS and queries go through (PRODUCERS): tests hold these against dvc.yaml."""
    tree = ast.parse(file.read_text())
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        if any(getattr(target, "id", "") in ("NEEDS", "PRODUCERS") for target in targets):
            documents |= {id(part) for part in ast.walk(node)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documents
        and re.match(r"(data|metrics|report)/", node.value)
    ]


def test_outputs_can_be_restored_from_the_cache_of_runs():
    """`cache: false` on an out disables it for a stage, and `persist` leaks earlier results. For a
    stage that depends on a part of an output it looks for the committed version of the whole."""
    outs = {out for name, item in stages() for out in outputs_of(resolved(name, item, GRAPH))}
    for name, item in stages():
        stage = resolved(name, item, GRAPH)
        for out in stage.get("outs", []):
            assert isinstance(out, str), f"{out}: outs take no options"
        for dep in stage["deps"]:
            assert not above(dep) & outs, f"{name}: {dep} lies in {above(dep) & outs}"


@cache
def names_in(module):
    """What a module of the packages defines or imports; None if it is a folder or no module."""
    path = ROOT / module.replace(".", "/")
    if path.is_dir():
        return None
    if not path.with_suffix(".py").exists():
        return frozenset()
    names = {"__file__", "__name__", "__doc__", "__path__", "__dict__"}
    for node in ast.walk(ast.parse(path.with_suffix(".py").read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return frozenset(names)


def missing_names(tree):
    """Names that a file takes from modules of the packages, and that these do not have."""
    modules = {}
    missing = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.ImportFrom) and node.module and not node.level):
            continue
        if node.module.partition(".")[0] not in MAY_IMPORT:
            continue
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            there = names_in(node.module)
            if there is not None and alias.name not in there:
                missing.append(inner)
            elif there is None and names_in(inner):
                modules[alias.asname or alias.name] = inner
    stored = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    stored |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            if module and node.value.id not in stored and node.attr not in names_in(module):
                missing.append(f"{module}.{node.attr}")
    return missing


@pytest.mark.parametrize("package", ["tests", "benchmarks", "docs/tools"])
def test_what_no_fast_test_runs_names_what_is_there(package):
    # Slow tests, the campaign and the benchmarks may run days after a name has moved.
    wrong = {path: missing_names(ast.parse(path.read_text())) for path in sources(package)}
    assert {str(path.relative_to(ROOT)): names for path, names in wrong.items() if names} == {}
