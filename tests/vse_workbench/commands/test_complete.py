"""`vse complete`: an old params.yaml made whole, other faults named."""

import re
import shutil
from pathlib import Path

import pytest

from pipeline.runtime.yaml_text import read_yaml
from stages import params as stage_params
from stages.params import MOVED, TRACKED, default_values, find_problems, load_params
from vse_workbench.claims.ledger import leaves
from vse_workbench.commands.complete import completed

ROOT = Path(__file__).resolve().parents[3]
WHOLE = (ROOT / "params.yaml").read_text()
OLD = WHOLE.replace("  criteria:\n  - inverted_softmax\n", "")
OLD = OLD.replace(WHOLE[WHOLE.index("# VSE:") :].split("\n\n")[0], "")
RUN = "vse complete"


@pytest.fixture
def workspace(tmp_path):
    """A repository whose params.yaml lacks a key and the section of a model."""
    shutil.copytree(ROOT / "data/raw", tmp_path / "data/raw")
    (tmp_path / "params.yaml").write_text(OLD)
    return tmp_path


def test_the_defaults_of_the_types_are_the_repositorys_params():
    """README.md's figures are those of the defaults."""
    assert default_values() == read_yaml(ROOT / "params.yaml")


def test_moved_keys_are_gone_and_their_places_are_there():
    there = dict(leaves(default_values()))
    assert not MOVED.keys() & there.keys()
    assert {place for places in MOVED.values() for place in places} <= there.keys()


def test_an_old_file_is_refused_with_the_way_out_and_completed(
    workspace, run_stage, run_vse, monkeypatch
):
    monkeypatch.chdir(workspace)
    process = run_stage("check_params", "--output", "a.ok", cwd=workspace, check=False)
    assert process.returncode == 1
    assert "  section vse is missing; add it with: vse complete\n" in process.stderr
    assert process.stderr.splitlines()[-1].endswith(RUN)
    (workspace / "params.yaml").write_text(OLD.replace("loss: sum_margin", "loss: sum"))
    process = run_stage("check_params", "--output", "a.ok", cwd=workspace, check=False)
    assert process.stderr.splitlines()[-2].endswith(RUN)
    assert process.stderr.splitlines()[-1].startswith("undo with: ")  # the loss is no old key
    (workspace / "params.yaml").write_text(OLD)
    done = run_vse("complete", cwd=workspace)
    assert "inference.criteria = [inverted_softmax]: inserted\n" in done.stdout
    assert "vse.training.lr = 0.001: inserted\n" in done.stdout
    text = (workspace / "params.yaml").read_text()
    kept = iter(text.splitlines())
    assert all(line in kept for line in OLD.splitlines())
    assert read_yaml(workspace / "params.yaml") == read_yaml(ROOT / "params.yaml")
    load_params(workspace / "params.yaml")
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


@pytest.mark.parametrize(
    ("places", "words"),
    [(("vse.dim", "scan.dim"), "it is vse.dim, scan.dim now"), ((), "it is read no more")],
)
def test_a_key_that_has_moved_is_named(tmp_path, monkeypatch, places, words):
    monkeypatch.chdir(ROOT)
    monkeypatch.setitem(stage_params.MOVED, "ranking.width", places)
    text = WHOLE.replace("ranking:\n", "ranking:\n  width: 7\n")
    (tmp_path / "params.yaml").write_text(text)
    assert list(find_problems(read_yaml(tmp_path / "params.yaml"))) == [
        f"ranking.width = 7: unknown key; {words}"
    ]
    with pytest.raises(Exception, match=RUN):
        load_params(tmp_path / "params.yaml")


def test_the_keys_inside_sections_that_dvc_names():
    """As `params` or in a template, by their first two names."""
    words = re.findall(r"(?<![\w./-])(\w+)\.(\w+)", (ROOT / "dvc.yaml").read_text())
    sections = {name: kind for name, kind in default_values().items() if isinstance(kind, dict)}
    found = {f"{name}.{key}" for name, key in words if key in sections.get(name, ())}
    assert set(TRACKED) == found


def done(values, moved=(), defaults=None):
    return completed(values, defaults or NEW, dict(moved))


SCAN = {"margin": 0.2, "names": ["a"]}
NEW = {"ranking": {"k": 3}, "vse": {"margin": 0.2, "dim": 1}, "scan": SCAN}
MARGIN = {"ranking.margin": ("vse.margin", "scan.margin")}


def test_a_value_is_carried_to_where_its_key_has_moved():
    values, lines = done({"ranking": {"margin": 0.5, "k": 9}, "vse": {"dim": 2}}, MARGIN)
    scan = SCAN | {"margin": 0.5}
    assert values == {"ranking": {"k": 9}, "vse": {"margin": 0.5, "dim": 2}, "scan": scan}
    assert lines == [
        "ranking.margin = 0.5: moved to vse.margin, scan.margin",
        "vse.margin = 0.5: inserted",
        "scan.margin = 0.5: inserted",
        "scan.names = [a]: inserted",
    ]
    assert done(values, MARGIN) == (values, [])


@pytest.mark.parametrize("old", ["b", ["b"]])
def test_a_single_value_becomes_a_list_where_a_list_took_its_place(old):
    values, lines = done({"scan": {"name": old}}, {"scan.name": ("scan.names",)})
    assert values["scan"]["names"] == ["b"]
    assert "scan.names = [b]: inserted" in lines


@pytest.mark.parametrize(
    ("values", "moved", "expected", "lines"),
    [
        ({"old": 3}, {"old": ()}, {}, ["old = 3: removed"]),
        (
            {"old": {"gone": 7, "on": 1}},
            {"old.gone": (), "old.never": ()},
            {"old": {"on": 1}},
            ["old.gone = 7: removed"],
        ),
        # left to the check: a key whose place is taken, a wrong section, one of the user
        ({"ranking": {"margin": 0.5, "k": 1}}, MARGIN, {"ranking": {"margin": 0.5, "k": 1}}, []),
        ({"scan": 3, "mine": None}, {}, {"scan": 3, "mine": None}, []),
    ],
)
def test_what_goes_and_what_stays(values, moved, expected, lines):
    assert done(NEW | values, moved) == (NEW | expected, lines)


def test_names_that_the_user_chose_are_left_as_they_are():
    defaults = NEW | {"average_scores": {"one": {"members": ["c", "d"]}}, "external": {}}
    mine = NEW | {"average_scores": {"mine": 1}}
    assert done(mine, (), defaults) == (mine | {"external": {}}, ["external = {}: inserted"])
    assert done({"vse": None}, (), defaults)[0] == defaults  # empty and absent sections are filled
