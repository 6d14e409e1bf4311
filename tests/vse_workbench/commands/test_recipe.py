"""`vse recipe`: what it writes, keeps and says, several times over one params.yaml."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from clone import ROOT
from commands import run_command

from pipeline.runtime.recipes import parse_settings
from pipeline.runtime.yaml_text import read_yaml
from vse_workbench.commands.recipe import main

MINE = "# of mine\nloss: infonce\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A repository with a params.yaml that somebody has changed, and a folder of photographs."""
    (tmp_path / "photographs").mkdir()
    (tmp_path / "other").mkdir()
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    shutil.copytree(ROOT / "data/raw/shapes", tmp_path / "data/raw/shapes")
    (tmp_path / "params.yaml").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recipe(*words):
    done = run_command(main, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def says(setting):
    ((key, expected),) = parse_settings((setting,)).items()
    value = read_yaml(Path("params.yaml"))[key]
    while isinstance(expected, dict):
        ((key, expected),) = expected.items()
        value = value[key]
    return value == expected


def undo(said):
    command = said.splitlines()[-1].removeprefix("undo with: ")
    subprocess.run(shlex.split(command), check=True)
    return Path("params.yaml").read_text()


@pytest.mark.parametrize("package", ["json", "no_such_package"])
def test_settings_for_an_installed_package(folder, package):
    """Said either way; what -S gives is stronger."""
    written = f"with_installed: {{{package}: {{seed: 9, loss: infonce}}}}\nvse: {{dim: 64}}\n"
    Path("recipes/mine.yaml").write_text(written)
    said = recipe("mine", "-S", "loss=max_margin")
    there = package == "json"
    uses = "installed: this recipe uses" if there else "not installed: this recipe does without"
    assert said.startswith(f'{package} is {uses} {{"seed": 9, "loss": "infonce"}}\n')
    assert all(map(says, (f"seed={9 if there else 0}", "loss=max_margin", "vse.dim=64")))


def test_every_change_is_one_short_line(folder):
    said = recipe("photographs", "-S", "raw=photographs")
    assert "\nrun: dvc repro\nundo with: cp " in said
    assert "raw: (none) -> photographs\n" in said
    recipe("default", "-S", "seed=3")
    assert "seed: 3 -> 0\n" in recipe("default")
    said = recipe("photographs", "-S", "raw=photographs")
    assert "dual_path.phases.1.epochs: 1 -> 0\n" in said
    assert max(map(len, said.splitlines())) < 100
    assert "raw is still data/raw/shapes; name your folder" in recipe("vse_2019_flickr30k")
    own = recipe("vse_2019_flickr30k", "-Sraw=photographs")
    assert "run: dvc repro evaluate@vse\n" in own
    assert "still" not in own


def test_a_second_try_keeps_what_the_first_was_given(folder):
    recipe("photographs", "-S", "raw=photographs", "-S", "vse.dim=64")
    said = recipe("photographs", "-S", "dataset=captions_csv", "-S", "vse.dim=32")
    assert "\nkept from before: -Sraw=photographs\n" in said
    assert all(map(says, ("raw=photographs", "dataset=captions_csv", "vse.dim=32")))
    said = recipe("photographs", "-S", "raw=other")
    assert "\nkept from before: -Sdataset=captions_csv -Svse.dim=32\n" in said
    assert all(map(says, ("raw=other", "dataset=captions_csv", "vse.dim=32")))
    assert undo(said) == MINE  # what stood before all three
    said = recipe("photographs")  # nothing is kept that params.yaml does not say
    assert "kept from before" not in said
    assert says("raw=data/raw/shapes")


def test_after_another_recipe_nothing_is_kept_and_undo_goes_one_step_back(folder):
    recipe("photographs", "-S", "raw=photographs")
    before = Path("params.yaml").read_text()
    said = recipe("vse_2019_flickr30k", "-S", "seed=1")
    assert "kept from before" not in said
    assert says("raw=data/raw/shapes")
    assert undo(said) == before
    recipe("photographs")
    changed = Path("params.yaml").read_text().replace("seed: 0", "seed: 7", 1)
    Path("params.yaml").write_text(changed)
    assert undo(recipe("photographs")) == changed


def test_a_refused_setting_writes_nothing(folder):
    done = run_command(main, "photographs", "-S", "raw=nowhere")
    assert done.returncode == 1
    assert "raw = 'nowhere': no such file or folder" in done.stderr
    assert Path("params.yaml").read_text() == MINE
    assert not Path("data/.work").exists()
