"""Folders and files of the user's machine, as `dvc repro` meets them in a clone on a tiny world:
any name of a folder, a file that is replaced, a merge, a queued run, a user without a name.

The tests of this file share one clone; each leaves its params.yaml as it found it.
"""

import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from clone import ROOT, Clone
from corpora import change_params
from warm_python import warm_python

from pipeline.runtime.yaml_text import read_yaml

WORLD = {"train": 8, "val": 4, "test": 4, "image_size": 48, "captions_per_image": 2}
# Relative paths, and one that is put behind an absolute one. Each part of them would be several
# words, an option, another command or a pattern in a shell.
INSIDE = (
    '-photos/my photos (2024) & co/O\'Brien says "cheese" > INJECTED/photos:2024',
    "~tilde/$(touch INJECTED) $HOME ${HOME} %s",
)
OUTSIDE = "a`touch INJECTED`b; touch INJECTED/two\nlines/[ab]*? #1/Übung\\a=b/slash at the end/"


def commands(graph):
    """The commands of a dvc.yaml as they stand there."""
    for name, stage in graph["stages"].items():
        yield name, stage.get("do", stage)["cmd"]


def test_no_command_has_a_path_of_params_yaml():
    """What is filled in is a name that check_params allows, or stands in dvc.yaml itself."""
    names = r"\$\{(key|item|item\.(inputs|scoring|first|second)|scoring\.keep)\}"
    for stage, command in commands(read_yaml(ROOT / "dvc.yaml")):
        left = re.sub(names, "", command)
        assert "${" not in left, f"{stage}: {command}"


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    clone = Clone(tmp_path_factory.mktemp("outside") / "work bench")
    (clone.folder / "dvc.lock").unlink()
    change_params(
        clone.folder,
        raw="data/raw/shapes",
        runtime={"threads": 1},
        shapes=WORLD,
        detector={"weights": "random"},
        vocabulary={"dim": 8, "epochs": 1},
        sentences={"encoding": "mean_vector"},
        cca={"dim": 2, "regularisation": 0.1},
        evaluation={"bootstrap": 0},
    )
    clone.commit("tiny world")
    with warm_python(tmp_path_factory.mktemp("warm") / "bin") as folder:
        clone.path.insert(0, str(folder))
        yield clone


@pytest.fixture
def params(clone):
    """Sets keys of params.yaml; afterwards all are as they were."""
    before = (clone.folder / "params.yaml").read_bytes()
    yield lambda **changes: change_params(clone.folder, **changes)
    (clone.folder / "params.yaml").write_bytes(before)


def ran(said):
    return re.findall(r"^Running stage '(.+)':$", said, flags=re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*INSIDE, OUTSIDE])
def test_a_folder_may_have_any_name(clone, params, tmp_path, name):
    base = tmp_path if name == OUTSIDE else clone.folder
    try:
        shutil.copytree(ROOT / "data/raw/shapes", base / name)
        params(raw=f"{tmp_path}/{name}" if name == OUTSIDE else name)
        said = clone.run("dvc", "repro", "prepare_corpus", "prepare_phrases")
        assert "prepare_corpus" in ran(said)
        assert "corpus: train 8 images 16 captions" in said
        assert "Data and pipelines are up to date." in clone.run("dvc", "status", "prepare_corpus")
        folders = [clone.folder, *(base / name).parents]
        assert not [path for path in folders if (path / "INJECTED").exists()]
    finally:
        shutil.rmtree(base / name.split("/")[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"average_scores": {"a; touch INJECTED": {"members": ["cca", "vse"]}}},
        {"average_scores": {"a": {"members": ["cca", "$(touch INJECTED)"]}}},
        {"external": {"`touch INJECTED`": {"folder": "docs", "scores": "graph.svg"}}},
        {"rerank": {"$(touch INJECTED)": {"first": "cca", "second": "vse", "top": 5}}},
        {"rerank": {"a": {"first": "cca", "second": "v & touch INJECTED", "top": 5}}},
        {"search": {"index": "hnsw", "models": ["vse; touch INJECTED"]}},
        {"more_models": {"adapter; touch INJECTED": {}}},
        {"scoring": {"keep": "scores; touch INJECTED"}},
    ],
    ids=str,
)
def test_a_name_that_a_shell_would_run_is_refused_before(clone, params, changes):
    params(**changes)
    said = clone.run("dvc", "repro", check=False)
    assert ran(said) == ["check_params"]
    assert "error: params.yaml: 1 problem" in said
    assert "Traceback" not in said
    assert not (clone.folder / "INJECTED").exists()


@pytest.fixture
def vectors(clone, params, tmp_path):
    """Writes a file of image vectors that params.yaml names, with other vectors for each seed."""
    clone.run("dvc", "repro", "prepare_corpus")
    images = pd.read_parquet(clone.folder / "data/corpus/images.parquet")
    path = tmp_path / "clip.npz"
    file = {"path": str(path), "ids": "ids", "features": "features", "other_ids": "error"}
    params(image_features={"source": "file", "file": file})

    def write(seed):
        values = np.random.default_rng(seed).normal(size=(len(images), 6)).astype("float32")
        np.savez(path, ids=images["image_id"].to_numpy(str), features=values)
        return path

    yield write
    clone.run("git", "checkout", "params.yaml")
    clone.run("dvc", "repro", "-f", "-s", "check_params")


@pytest.mark.slow
def test_a_replaced_file_re_runs_the_stages_that_read_it_and_no_others(clone, vectors):
    status = ("dvc", "status", "--with-deps", "evaluate@cca")
    vectors(0)
    assert "extract_image_features" in ran(clone.run("dvc", "repro", "evaluate@cca"))
    metrics = clone.folder / "metrics/cca.json"
    first = metrics.read_bytes()
    assert "Data and pipelines are up to date." in clone.run(*status)

    vectors(1)
    said = clone.run(*status)
    assert "modified:           data/named" in said
    behind = ["extract_image_features", "train@cca", "score@cca", "evaluate@cca"]
    assert ran(clone.run("dvc", "repro", "evaluate@cca")) == ["check_params", *behind]
    assert metrics.read_bytes() != first
    assert "Data and pipelines are up to date." in clone.run(*status)

    vectors(2)
    alone = ("dvc", "repro", "--force", "--single-item", "extract_image_features")
    said = clone.run(*alone, check=False)
    assert "was written after check_params had looked at it" in said

    vectors(0)  # all of it has been there before
    assert ran(clone.run("dvc", "repro", "evaluate@cca")) == []
    assert metrics.read_bytes() == first


@pytest.mark.slow
def test_after_a_named_file_was_moved(clone, vectors, params):
    path = vectors(0)
    clone.run("dvc", "repro", "extract_image_features")
    moved = path.rename(path.with_name("moved.npz"))
    params(image_features={"file": {"path": str(moved)}})
    said = clone.run("dvc", "repro", "extract_image_features", check=False)
    assert re.search("No such file or directory: '.*data/named/image_features.file.path'", said)
    clone.run("dvc", "repro", "-f", "-s", "check_params")
    said = clone.run("dvc", "repro", "extract_image_features")
    assert ran(said) == ["extract_image_features"]  # by its params, which have the path
    assert "Data and pipelines are up to date." in clone.run("dvc", "status", "check_params")


@pytest.mark.slow
def test_two_branches_are_merged_as_the_documents_say(clone):
    document = (ROOT / "docs/running.md").read_text()
    choose = re.search(r"^git checkout --theirs .*$", document, flags=re.MULTILINE)[0]
    clone.run("dvc", "repro", "evaluate@cca")
    clone.commit("run")
    for branch, seed in (("other", 1), ("mine", 2)):
        clone.run("git", "checkout", "--quiet", "-b", branch, "main")
        change_params(clone.folder, seed=seed)
        clone.run("dvc", "repro", "evaluate@cca")
        clone.commit(branch)
    assert "CONFLICT" in clone.run("git", "merge", "other", check=False)

    said = clone.run("vse", "search", "a red square", "--model", "cca", check=False)
    message = r"error: params.yaml, line \d+: conflict markers of git: two branches have changed it"
    assert re.match(message, said)
    hint = said.splitlines()[1].removeprefix("choose a side: ").partition(" (or")[0]
    assert hint == "git checkout --theirs params.yaml"
    assert "conflict" in clone.run("dvc", "repro", "evaluate@cca", check=False)
    clone.run(*hint.split())
    said = clone.run("vse", "compare", "metrics/cca.json", "metrics/cca.json", check=False)
    assert said.startswith("error: metrics/cca.json, line ")
    assert "conflict markers of git" in said
    clone.run(*choose.partition("#")[0].split())
    assert ran(clone.run("dvc", "repro", "evaluate@cca")) == []
    assert read_yaml(clone.folder / "params.yaml")["seed"] == 1
    clone.run("git", "add", "--update")
    clone.run("git", "commit", "--quiet", "--message", "Merge")
    assert clone.run("git", "diff", "--name-only", "other") == ""
    clone.run("git", "checkout", "--quiet", "main")


@pytest.mark.slow
def test_a_queued_run_says_that_it_lacks_what_git_does_not_track(clone, params):
    raw = clone.folder / "data/raw/mine"
    shutil.copytree(ROOT / "data/raw/shapes", raw)
    with open(clone.folder / ".git/info/exclude", "a", encoding="utf-8") as ignored:
        ignored.write("/data/raw/mine/\n")
    params(raw="data/raw/mine")
    run = ("dvc", "exp", "run", "--temp", "prepare_corpus", "-S", "seed=3")
    said = clone.run(*run, check=False)
    assert "raw = 'data/raw/mine': not in this copy of the repository: a queued run has " in said
    assert "git checkout params.yaml" not in said
    clone.run("dvc", "add", "data/raw/mine")
    clone.commit("images under DVC")
    said = clone.run(*run)
    assert "prepare_corpus" in ran(said)
    clone.run("git", "reset", "--quiet", "--hard", "HEAD~1")
    shutil.rmtree(raw)


USER = """
import getpass
import os

from pipeline.runtime.process import name_user

os.setgroups([])
os.setgid(54321)
os.setuid(54321)
name_user()
print(getpass.getuser())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes a user without an entry")
@pytest.mark.parametrize(("given", "name"), [({}, "user-54321"), ({"USER": "me"}, "me")])
def test_a_user_without_an_entry_has_a_name_for_dvc(given, name):
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": "/"} | given
    command = [sys.executable, "-c", USER]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{name}\n"
