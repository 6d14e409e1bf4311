"""Edits of params.yaml while a stage runs are said, and the stage does not end well."""

import os
import re
import subprocess
import sys
from contextlib import chdir

import pytest
from clone import ROOT
from dvc.dependency.param import ParamsDependency
from dvc.repo import Repo

from pipeline.runtime.edits import EDITS, STAGE, Edits, recorded_keys
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress
from pipeline.runtime.yaml_text import read_yaml

PARAMS = """\
seed: 1
vse: {margin: 0.2, training: {epochs: 9}}
scan: {margin: 0.2}
corpus: {max_megapixels: 178, images: null}
training: {lr: 0.1}
"""
GRAPH = """\
stages:
  check: {deps: [params.yaml]}
  images: {params: [corpus.max_megapixels]}
  train:
    foreach: [vse, scan]
    do: {params: [seed, training, "${item}"]}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "params.yaml").write_text(PARAMS)
    (tmp_path / "dvc.yaml").write_text(GRAPH)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def edits(folder, monkeypatch):
    """Of a process in which DVC runs train@vse."""
    monkeypatch.setenv(STAGE, "train@vse")
    edits = Edits()
    edits.remember(read_yaml(folder / "params.yaml"))
    return edits


def change(folder, old, new):
    text = (folder / "params.yaml").read_text()
    assert old in text
    (folder / "params.yaml").write_text(text.replace(old, new, 1))


def test_the_keys_are_those_that_dvc_records():
    with chdir(ROOT), Repo() as repo:
        values = read_yaml(ROOT / "params.yaml")
        seen = 0
        for stage in repo.index.stages:
            own = [dep for dep in stage.deps if isinstance(dep, ParamsDependency)]
            recorded = [key for dep in own for key in dep.params]
            if any(dep.def_path == "params.yaml" for dep in stage.deps if dep not in own):
                recorded = list(values)
            assert sorted(recorded_keys(stage.addressing, values)) == sorted(recorded)
            seen += len(recorded)
    assert seen > 100


@pytest.mark.parametrize(
    ("stage", "old", "new", "said"),
    [
        ("train@vse", "margin: 0.2", "margin: 0.3", "vse.margin is 0.3 and was 0.2"),
        ("train@vse", "epochs: 9", "epochs: 9, lr: 1", "vse.training.lr is 1 and was missing"),
        ("train@vse", "lr: 0.1", "lr: 1", "training.lr is 1 and was 0.1"),
        ("train@vse", "seed: 1\n", "", "seed is missing and was 1"),
        ("images", "178", "20", "corpus.max_megapixels is 20 and was 178"),
        ("check", "images: null", "images: a", "corpus.images is a and was null"),
    ],
)
def test_an_edit_of_what_dvc_records_is_refused_at_the_end(
    folder, edits, monkeypatch, stage, old, new, said
):
    monkeypatch.setenv(STAGE, stage)
    edits.check()
    change(folder, old, new)
    with pytest.raises(WorkbenchError) as caught:
        edits.check()
    assert caught.value.message == f"params.yaml was edited while {stage} ran: {said}"
    (folder / "params.yaml").write_text(PARAMS)
    edits.check()


@pytest.mark.parametrize(
    ("stage", "old", "new"),
    [
        ("train@scan", "margin: 0.2", "margin: 0.3"),  # of vse
        ("images", "images: null", "images: a"),
        ("train@vse", "seed: 1\n", "# a comment\nseed: 1\n"),
        ("taken_out@vse", "margin: 0.2", "margin: 0.3"),  # of dvc.yaml, while it ran
        (None, "margin: 0.2", "margin: 0.3"),  # no stage of DVC's
    ],
)
def test_an_edit_of_what_dvc_does_not_record_is_none(folder, edits, monkeypatch, stage, old, new):
    if stage is None:
        monkeypatch.delenv(STAGE)
    else:
        monkeypatch.setenv(STAGE, stage)
    change(folder, old, new)
    edits.check()


def test_what_is_read_again_does_not_hide_an_edit(folder, edits):
    change(folder, "margin: 0.2", "margin: 0.3")
    edits.remember(read_yaml(folder / "params.yaml"))
    with pytest.raises(WorkbenchError):
        edits.check()


def test_an_edit_is_said_once_and_so_is_that_it_was_taken_back(folder, edits, capsys):
    edits.say_new()
    change(folder, "margin: 0.2", "margin: 0.3")
    edits.say_new()
    edits.say_new()
    said = capsys.readouterr().err
    assert said.count("params.yaml: vse.margin is 0.3 and was 0.2: ") == said.count("\n") == 1
    (folder / "params.yaml").write_text("seed: [\n")  # half written: looked at again later
    edits.say_new()
    (folder / "params.yaml").write_text(PARAMS)
    edits.say_new()
    assert capsys.readouterr().err == "params.yaml has the values of this stage again\n"


def test_progress_looks_now_and_then(monkeypatch):
    calls = []
    moment = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: moment[0])
    monkeypatch.setattr(Progress, "watches", [lambda: calls.append(moment[0])])
    with Progress("testing", 100, "steps") as progress:
        for moment[0] in range(12):
            progress.update()
    assert calls == [5, 10]


# A stage that somebody edits params.yaml under, as soon as it has read it.
EDITED = """
import runpy, sys
from pathlib import Path
from pipeline.runtime.edits import EDITS
remember = EDITS.remember
def remember_and_edit(values):
    remember(values)
    text = Path("params.yaml").read_text()
    Path("params.yaml").write_text(text.replace("seed: 0", "seed: 1", 1))
EDITS.remember = remember_and_edit
sys.argv = ["stages.check_params", "--output", "lists"]
runpy.run_module("stages.check_params", run_name="__main__", alter_sys=True)
"""


def test_a_stage_remembers_what_it_reads_and_ends_with_a_check(tmp_path):
    text = (ROOT / "params.yaml").read_text()
    raw = f"raw: {ROOT / 'data/raw/shapes'}"
    (tmp_path / "params.yaml").write_text(re.sub("^raw: .*", raw, text, flags=re.MULTILINE))
    (tmp_path / "dvc.yaml").write_bytes((ROOT / "dvc.yaml").read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", EDITED],
        cwd=tmp_path,
        env=os.environ | {STAGE: "check_params", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    said = "error: params.yaml was edited while check_params ran: seed is 1 and was 0\n"
    assert said in done.stderr


def test_this_process_runs_no_stage():
    assert EDITS.found() == []
