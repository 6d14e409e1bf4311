"""The package as others get it: a wheel that imports, a whole source archive, its papers."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata

import pytest
from clone import ROOT, Clone
from first_party import PACKAGES
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from pipeline.runtime.yaml_text import read_yaml

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BUILD = "from setuptools import build_meta as b; b.build_{}({!r})"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    source, made = Clone(folder / "source").folder, folder / "made"
    made.mkdir()
    for kind in ("sdist", "wheel"):
        subprocess.run(
            [sys.executable, "-c", BUILD.format(kind, str(made))],
            cwd=source,
            check=True,
            capture_output=True,
        )
    return made


def test_the_wheel_is_installed_and_imported_elsewhere(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*install, "--target", tmp_path / "site", wheel], check=True)
    (tmp_path / "models").mkdir()  # a user's own, where the script lies
    (tmp_path / "models/__init__.py").touch()
    script = "from vse_workbench import load_scores, loss_class\nimport sys, models.registry\n"
    script += "assert 'stages' not in sys.modules  # it changes how Python shows errors\n"
    script += "print(models.__file__, *models.registry.model_names())\n"
    script += "from vse_workbench.commands.recipe import main\n"
    script += "main(['vse_2019_mscoco', '-S', 'raw=.'])"

    def run(lines):
        (tmp_path / "script.py").write_text(lines)
        return subprocess.run(
            [sys.executable, tmp_path / "script.py"],
            cwd=tmp_path,
            env={"PYTHONPATH": str(tmp_path / "site")},
            capture_output=True,
            text=True,
        )

    done = run(script)
    (place, *names), changes = done.stdout.split("\n")[0].split(), done.stdout
    assert place.startswith(str(tmp_path / "site")), done.stderr
    assert "params.yaml: new, from " in changes
    assert read_yaml(tmp_path / "params.yaml")["dataset"] == "karpathy_json"
    said = run(f"import models\n{script}").stderr
    assert f"models: a package of this name is imported already, from {tmp_path}/models;" in said
    assert set(names) > set(read_yaml(ROOT / "dvc.yaml")["stages"]["train"]["foreach"])
    files = set(zipfile.ZipFile(wheel).namelist())
    assert {f"{name}/py.typed" for name in PACKAGES} <= files
    for pattern in ("**/*.py", "*/templates/*", "*/static/*", "recipes/*.yaml", "*.yaml"):
        own = [path for name in PACKAGES for path in (ROOT / name).glob(pattern)]
        assert own
        lost = {str(path.relative_to(ROOT)) for path in own} - files
        assert not lost, "ignored by git, or in a folder without an __init__.py"
    scripts = zipfile.ZipFile(wheel).read(next(name for name in files if "entry_points" in name))
    assert b"vse = vse_workbench.__main__:main\n" in scripts
    assert not any(name.startswith("tests") for name in files)


def test_the_source_archive_has_every_file_that_git_tracks(built):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        inside = {name.partition("/")[2] for name in file.getnames()}
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    lost = [name for name in tracked if name not in inside and (ROOT / name).is_file()]
    assert not lost, "add to MANIFEST.in"


def needed_packages():
    """The names of all distributions that the package needs here, without its extras."""
    found, queue = set(), [(PROJECT["name"], "")]
    while queue:
        name, extra = queue.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        environment = default_environment() | {"extra": extra}
        for needed in map(Requirement, metadata.requires(name) or []):
            if needed.marker is None or needed.marker.evaluate(environment):
                asked = ("", *needed.extras)
                queue += [(canonicalize_name(needed.name), each) for each in asked]
    return {name for name, _ in found} - {PROJECT["name"]}


def test_the_page_of_licences_lists_the_dependencies_and_no_others():
    page = (ROOT / "docs/licences.md").read_text()
    listed = re.findall(r"^\| ([a-z0-9-]+) \| \S.* \|$", page, re.MULTILINE)
    assert listed == ["package", *sorted(needed_packages())]


def test_the_citation_is_of_this_version():
    cited = read_yaml(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert (cited["version"], cited["license"]) == (PROJECT["version"], PROJECT["license"])


def pinned():
    """Versions by name, as constraints.txt has them."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pins.items()}


def test_what_is_pinned_installs_on_the_first_release_of_each_python():
    """Debian 12 has 3.11.2, on which a package for 3.11.5 and newer cannot be installed."""
    refusing = {}
    for name in pinned():
        try:
            needed = metadata.metadata(name)["Requires-Python"] or ""
        except metadata.PackageNotFoundError:  # of an extra that is not installed
            continue
        if not all(version in SpecifierSet(needed) for version in ("3.11.0", "3.12.0", "3.13.0")):
            refusing[name] = needed
    assert not refusing


def test_every_dependency_has_a_range_and_a_pin_inside_it():
    pins = pinned()
    extras = PROJECT["optional-dependencies"]
    for line in [*PROJECT["dependencies"], *(line for lines in extras.values() for line in lines)]:
        needed = Requirement(line)
        if needed.name == PROJECT["name"]:
            continue
        bounds = {part.operator for part in needed.specifier}
        assert bounds == {">=", "<"}, line
        assert pins[canonicalize_name(needed.name)] in needed.specifier, line
