"""`vse new`: copies that are ready to run, and names that are refused."""

from contextlib import chdir

import pytest
from clone import Clone
from dvc.repo import Repo

CHECK = ("python", "-m", "stages.check_params", "--output", "data/.checks/code")


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    clone = Clone(tmp_path_factory.mktemp("new") / "workbench")
    clone.commit("all")
    return clone


def new(clone, *words, check=True):
    return clone.run("python", "-m", "vse_workbench", "new", *words, check=check)


def add(clone, said):
    clone.run(*said.splitlines()[-1].partition(": ")[2].split())


def not_cached(clone, name):
    """The outputs of a stage that git keeps."""
    with chdir(clone.folder), Repo() as repo:
        (stage,) = repo.stage.collect(name)
        return [out.def_path for out in stage.outs if not out.use_cache]


def test_what_is_copied_passes_check_params(clone):
    for kind in ("loss", "metric", "reader", "encoding", "criterion", "pooling"):
        said = new(clone, kind, f"mine_{kind}")
        assert f"mine_{kind}.py" in said
        add(clone, said)
    said = new(clone, "model", "mine", "--like", "scan")
    assert "use it: dvc repro evaluate@mine" in said
    add(clone, said)
    outs = [out for stage in ("train", "evaluate") for out in not_cached(clone, f"{stage}@mine")]
    assert f"its run also writes, for git: {' '.join(sorted(outs, reverse=True))}\n" in said
    assert "??" not in clone.run("git", "status", "--porcelain", "--untracked-files=all")
    clone.run(*CHECK)
    lists = clone.folder / "data/.checks/code"
    assert "models/mine.py " in (lists / "train@mine").read_text()
    assert "models/mine.py " in (lists / "record_attention@mine").read_text()
    assert "class Mine(Model)" in (clone.folder / "models/mine.py").read_text()
    assert "metrics/mine_metric.py " in (lists / "evaluate").read_text()
    script = "from pipeline.evaluation.rank_file import METRICS; "
    script += "from models.ranking import LOSSES; "
    script += "print([m.name for m in METRICS], LOSSES.load('mine_loss').__name__)"
    said = clone.run("python", "-c", script)
    assert "'mine_metric'" in said
    assert "MineLoss" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["loss", "sum_margin"], "loss 'sum_margin' exists: models/losses/sum_margin.py"),
        (["loss", "my-loss"], "name 'my-loss': allowed are lower case letters"),
        (["loss", "class"], "name 'class': allowed are lower case letters"),
        (["loss", "other", "--like", "nothing"], "ranking loss 'nothing': allowed are"),
        (["model", "vse"], "'vse' is a model or a section of params.yaml already"),
        (["model", "other", "--like", "nothing"], "--like 'nothing': models are"),
        (["metric", "other", "--like", "best_rank"], "--like 'best_rank': it has not one row"),
        (["network", "other"], "--like: there is no network to copy yet"),
    ],
)
def test_wrong_names_are_refused_and_nothing_is_written(clone, words, message):
    before = {path: path.read_bytes() for path in clone.folder.rglob("*.[py][ya]*")}
    said = new(clone, *words, check=False)
    assert f"error: {message}" in said
    assert "Traceback" not in said
    assert before == {path: path.read_bytes() for path in clone.folder.rglob("*.[py][ya]*")}
