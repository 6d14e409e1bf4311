"""`python -m stages.check_params`: the lists of stages, with what a stage reads from outside."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import fail, succeed
from corpora import ROOT, change_params
from dvc_data.hashfile.meta import Meta

from pipeline.runtime.recipes import leaves
from pipeline.runtime.yaml_text import read_yaml
from stages.check_params import main as check_params
from stages.code import UNSEEN, stage_lists

LISTS = "data/.checks/code"


@pytest.fixture
def project(tmp_path):
    change_params(tmp_path)
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    return tmp_path


def lists(folder):
    """What check_params writes, by the name of a list."""
    succeed(check_params, folder, "--output", LISTS)
    return {path.name: path.read_text() for path in (folder / LISTS).iterdir()}


def changed(before, after):
    return {name for name, text in after.items() if before.get(name) != text}


def named(folder):
    paths = (folder / "data/named").rglob("*")
    return {str(path.relative_to(folder / "data/named")): path for path in paths}


def test_lists_change_with_the_content_of_the_files_that_their_stages_read(project):
    plain = lists(project)
    assert set(plain) == {
        Path(out).name for out in read_yaml(ROOT / "dvc.yaml")["stages"]["check_params"]["outs"]
    }
    assert not (project / "data/named").exists()
    np.save(project / "clip.npy", np.ones((2, 3)))
    (project / "precomputed").mkdir()
    np.save(project / "precomputed/train_ims.npy", np.ones(2))
    own = {"source": "file", "file": {"path": "clip.npy"}}
    regions = {"source": "scan_npy", "path": str(project / "precomputed")}
    change_params(project, image_features=own, regions=regions, detector__weights="random")
    first = lists(project)
    assert named(project)["image_features.file.path"].resolve() == project / "clip.npy"
    assert "regions.path/train_ims.npy" in named(project)
    readers = {"extract_image_features", "extract_region_features"}
    assert changed(plain, first) == readers
    assert lists(project) == first

    np.save(project / "clip.npy", np.zeros((2, 3)))
    second = lists(project)
    assert changed(first, second) == {"extract_image_features"}
    np.save(project / "precomputed/dev_ims.npy", np.ones(3))
    assert changed(second, lists(project)) == {"extract_region_features"}

    change_params(project, image_features={"source": "network"}, regions={"source": "detector"})
    change_params(project, image_features__file__path=None, regions__path=None)
    assert lists(project) == plain
    assert named(project) == {}


def test_a_value_that_the_run_cache_of_dvc_does_not_see_changes_the_lists_of_its_readers(project):
    """DVC leaves out what is called `size` or `nfiles` when it looks for an earlier run."""
    assert {Meta.PARAM_SIZE, Meta.PARAM_NFILES} == UNSEEN
    plain = lists(project)
    stages = stage_lists(read_yaml(project / "dvc.yaml"))
    keys = [key for key, _ in leaves(read_yaml(project / "params.yaml"))]
    hidden = [key for key in keys if UNSEEN & set(key.split("."))]
    assert hidden == ["image_features.size", "regions.network.size"]
    for key in hidden:
        section = key.partition(".")[0]
        readers = {name for name, read in stages.items() if section in read}
        assert readers
        change_params(project, **{key.replace(".", "__"): 96})
        assert changed(plain, lists(project)) == readers
        change_params(project, **{key.replace(".", "__"): 128})
        assert lists(project) == plain


@pytest.mark.parametrize(
    ("changes", "readers"),
    [
        ({"detector__weights": "w.pth"}, ["train_detector"]),
        ({"image_features__weights": "w.pth"}, ["extract_image_features"]),
        ({"phrases__features__network__weights": "w.pth"}, ["extract_proposals"]),
        ({"vocabulary": {"source": "word2vec_text", "vectors": "w.pth"}}, ["build_vocabulary"]),
        ({"sentences__tfidf__stop_words": "w.pth"}, ["encode_phrases", "encode_sentences"]),
    ],
    ids=str,
)
def test_weights_words_and_lists_are_files_of_their_stages(project, changes, readers):
    (project / "w.pth").write_text("a")
    change_params(project, **changes)
    first = lists(project)
    (project / "w.pth").write_text("another")
    assert sorted(changed(first, lists(project))) == readers


@pytest.mark.parametrize(
    "text",
    ["<<<<<<< HEAD\nseed: 1\n=======\nseed: 2\n>>>>>>> other\n", "loss: infonce\n<<<<<<< HEAD\n"],
    ids=["both sides", "one mark"],
)
def test_a_conflict_of_git_is_named_and_other_damage_is_not_taken_for_one(project, text):
    (project / "params.yaml").write_text(text)
    said = fail(check_params, project, "--output", LISTS)
    if "=======" in text:
        assert said.startswith("error: params.yaml, line 1: conflict markers of git: two branches")
        assert "git checkout --theirs params.yaml (or --ours)" in said
    else:
        assert "not valid YAML" in said
