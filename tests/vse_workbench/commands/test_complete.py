"""`vse complete`: an old params.yaml made whole, other faults named."""

import re
import shutil

import pytest
from clone import ROOT

from pipeline.runtime.yaml_text import read_yaml
from stages.params import default_values, load_params
from vse_workbench.commands.complete import with_every_key

WHOLE = (ROOT / "params.yaml").read_text()
OLD = WHOLE.replace("  criteria:\n  - inverted_softmax\n", "")
OLD = OLD.replace(WHOLE[WHOLE.index("# VSE:") :].split("\n\n")[0], "")
OLD = re.sub("  max_megapixels: .*\n", "", OLD)
RUN = "vse complete"


@pytest.fixture
def workspace(tmp_path):
    """A repository whose params.yaml lacks a key and the section of a model."""
    shutil.copytree(ROOT / "data/raw", tmp_path / "data/raw")
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    (tmp_path / "params.yaml").write_text(OLD)
    return tmp_path


def test_the_defaults_of_the_types_are_the_repositorys_params():
    """README.md's figures are those of the defaults."""
    assert default_values() == read_yaml(ROOT / "params.yaml")


def test_an_old_file_is_refused_with_the_way_out_and_completed(
    workspace, run_stage, run_vse, monkeypatch
):
    monkeypatch.chdir(workspace)
    process = run_stage("check_params", "--output", "a.ok", cwd=workspace, check=False)
    assert process.returncode == 1
    assert "params.yaml: vse, corpus.max_megapixels missing\n" in process.stderr
    assert process.stderr.splitlines()[-1].endswith(RUN)
    done = run_vse("complete", cwd=workspace)
    assert "inference.criteria = [inverted_softmax]: inserted\n" in done.stdout
    assert "vse.training.lr = 0.001: inserted\n" in done.stdout
    text = (workspace / "params.yaml").read_text()
    kept = iter(text.splitlines())
    assert all(line in kept for line in OLD.splitlines())
    assert read_yaml(workspace / "params.yaml") == read_yaml(ROOT / "params.yaml")
    load_params(workspace / "params.yaml", models=None)
    again = run_vse("complete", cwd=workspace)
    assert again.stdout == "params.yaml has every key\n"
    assert (workspace / "params.yaml").read_text() == text


def test_what_it_cannot_mend_is_named(workspace, run_vse):
    phases = OLD.replace("    stop_below: 0.01\n", "")
    (workspace / "params.yaml").write_text(phases + "mine: 1\nlos: 2\n")
    process = run_vse("complete", cwd=workspace, check=False)
    assert process.returncode == 1
    assert "inference.criteria = [inverted_softmax]: inserted\n" in process.stdout
    assert process.stderr == (
        "error: params.yaml is not valid yet:\n"
        "  dual_path.phases.0.stop_below: missing; an item of a list has all its keys\n"
        "  mine = 1: unknown key\n"
        "  los = 2: unknown key; did you mean loss?\n"
        "undo with: touch params.yaml && git checkout params.yaml\n"
    )
    assert "  criteria:\n  - inverted_softmax\n" in (workspace / "params.yaml").read_text()


NEW = {"vse": {"margin": 0.2, "dim": 1}, "average_scores": {"one": {"members": ["c", "d"]}}}
DEFAULTS = NEW | {"external": {}}


def test_names_that_the_user_chose_are_left_as_they_are():
    mine = NEW | {"average_scores": {"mine": 1}}
    assert with_every_key(mine, DEFAULTS) == (mine | {"external": {}}, ["external = {}: inserted"])


def test_empty_sections_are_filled_and_what_the_check_must_name_stays():
    assert with_every_key({"vse": None}, DEFAULTS)[0] == DEFAULTS
    wrong = DEFAULTS | {"vse": 3, "mine": None}
    assert with_every_key(wrong, DEFAULTS) == (wrong, [])
