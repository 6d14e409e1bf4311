"""The rules of the house that a reader cannot see in one file: who imports whom, and that DVC is
told of every file a stage is made of."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from first_party import PACKAGES, closure, imported
from ruamel.yaml import YAML

from pipeline.files import INFRASTRUCTURE
from pipeline.sections import Params
from stages.systems import SYSTEMS
from stages.systems.attention import VIEWS

ROOT = Path(__file__).resolve().parents[1]
GRAPH = YAML(typ="safe", pure=True).load((ROOT / "dvc.yaml").read_text())["stages"]

# Editing these changes how a stage is run or what it prints, never what it computes: they are left
# out of the deps on purpose, so that a better error message retrains nothing.
LEFT_OUT = (*INFRASTRUCTURE, "stages.common")

MAY_IMPORT = {
    "pipeline": {"pipeline"},
    "models": {"models"},
    "stages": {"stages", "pipeline", "models"},
}


def sources(package):
    return sorted((ROOT / package).rglob("*.py"))


def expand():
    """Yield (stage name, item key or None, stage with ${key} and ${item.x} filled in)."""
    for name, stage in GRAPH.items():
        if "foreach" not in stage:
            yield name, None, stage
            continue
        for key, item in stage["foreach"].items():
            yield (
                name,
                key,
                fill(stage["do"], {"key": key} | {f"item.{k}": v for k, v in item.items()}),
            )


def fill(node, values):
    if isinstance(node, dict):
        return {fill(key, values): fill(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [fill(value, values) for value in node]
    if isinstance(node, str):
        return re.sub(r"\$\{(.+?)\}", lambda match: values.get(match[1], match[0]), node)
    return node


STAGES = [pytest.param(*stage, id="@".join(filter(None, stage[:2]))) for stage in expand()]


def loaded_by(name, key):
    """Modules a stage runs: its own, and what lazy maps load for its item: system and view."""
    by_name = [SYSTEMS[key]] if name in ("train", "score") else []
    views = VIEWS.get(key, ()) if name == "score" else ()
    return [f"stages.{name}", *by_name, *(view.split(":")[0] for view in views)]


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package):
    for file in sources(package):
        outside = {module.split(".")[0] for module in imported(ROOT, file)} - MAY_IMPORT[package]
        assert not outside, f"{file.relative_to(ROOT)} must not import {sorted(outside)}"


@pytest.mark.parametrize(
    ("package", "library"),
    [("pipeline", "click"), ("models", "click"), ("models", "pathlib"), ("models", "h5py")],
)
def test_packages_keep_to_their_libraries(package, library):
    for file in sources(package):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            used = [name for name in names if name.split(".")[0] == library]
            assert not used, f"{file.relative_to(ROOT)} must not import {library}"


@pytest.mark.parametrize(("name", "key", "stage"), STAGES)
def test_deps_are_the_import_closure(name, key, stage):
    needed = closure(ROOT, loaded_by(name, key), LEFT_OUT)
    listed = [dep for dep in stage["deps"] if dep.endswith(".py")]
    twice = {dep for dep in listed if listed.count(dep) > 1}
    # a model with fewer files than the template has slots fills them up with its own file
    assert twice <= ({f"models/{key}.py"} if key else set()), f"listed twice: {sorted(twice)}"
    missing, spare = sorted(needed - set(listed)), sorted(set(listed) - needed)
    assert not missing, f"add to deps of {name} in dvc.yaml: {missing}"
    assert not spare, f"remove from deps of {name} in dvc.yaml: {spare}"


@pytest.mark.parametrize(("name", "key", "stage"), STAGES)
def test_params_are_those_the_stage_reads(name, key, stage):
    """Attributes of the variable `params` in the stage and its system, by their section."""
    if name in ("check_params", "compare"):  # the report lists every parameter
        assert stage["params"] == [{"params.yaml": None}]
        return
    files = [ROOT / f"stages/{name}.py"]
    files += [ROOT / Path(*SYSTEMS[key].split(".")).with_suffix(".py")] if name == "train" else []
    read = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "params"
            ):
                assert node.attr in Params.model_fields, f"{file}: params.{node.attr}"
                read.add(node.attr)
    read.discard("runtime")  # where a run takes place, not what it computes
    listed = {param.split(".")[0] for param in stage.get("params", [])}
    assert read == listed, f"{name}: reads {sorted(read)}, dvc.yaml lists {sorted(listed)}"


@pytest.mark.parametrize(("name", "key", "stage"), STAGES)
def test_commands_name_their_files(name, key, stage):
    """Each path in a command is a declared dep or output; each output is in the command."""
    outputs = [next(iter(out)) if isinstance(out, dict) else out
               for kind in ("outs", "plots", "metrics") for out in stage.get(kind, [])]  # fmt: skip
    words = stage["cmd"].split()
    paths = {word for word in words if re.match(r"(data|metrics|report)/", word)}
    declared = set(stage["deps"]) | set(outputs)
    assert paths <= declared, f"{name}: undeclared {sorted(paths - declared)}"
    assert set(outputs) <= paths
    if name != "check_params":
        assert "data/.checks/params.ok" in stage["deps"]


def test_data_paths_live_in_the_graph_only():
    for package in PACKAGES:
        for file in sources(package):
            if file == ROOT / "stages/common.py":
                continue
            found = re.findall(r"""["'](?:data|metrics|report)/[\w./]*["']""", file.read_text())
            assert not found, f"{file.relative_to(ROOT)} names {found}"


def test_stages_are_thin():
    for file in sources("stages"):
        lines = len(file.read_text().splitlines())
        assert lines < 80, f"{file.relative_to(ROOT)} has {lines} lines"


def test_no_output_switches_the_run_cache_off():
    """`cache: false` on an out disables a stage's run cache; `persist` leaks earlier results."""
    for _, _, stage in expand():
        for out in stage.get("outs", []):
            assert isinstance(out, str), f"{out}: outs take no options"


def test_packages_are_installed_and_committed():
    """A package that git ignores is there for its author alone: a clone cannot be installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    present = [
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
    ]
    assert sorted(project["tool"]["setuptools"]["packages"]) == sorted(present)
    ignored = subprocess.run(
        ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "--", *PACKAGES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert [path for path in ignored.splitlines() if "__pycache__" not in path] == []
