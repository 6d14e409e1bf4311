"""What a dvc.lock in git says of a run: its values, data and code, and when it says nothing."""

import hashlib
import json

import pytest
from claim_cases import lock
from commands import git
from ruamel.yaml import YAML

from pipeline.runtime.errors import WorkbenchError
from vse_workbench.claims.recorded import Experiment, lock_stages, read_experiment, recorded

METRICS = json.dumps({"naive": {"rsum": 300.0}})
DIGEST = hashlib.md5(METRICS.encode()).hexdigest()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "start")
    return tmp_path


def committed(folder, stages, metrics=METRICS):
    """An experiment's commit on top of `start`: its lock and its metrics."""
    with (folder / "dvc.lock").open("w") as file:
        YAML(typ="safe").dump({"schema": "2.0", "stages": stages}, file)
    (folder / "metrics").mkdir(exist_ok=True)
    (folder / "metrics/vse.json").write_text(metrics)
    git("add", "--all")
    git("commit", "--quiet", "--message", "experiment")
    return read_experiment("adult-upas", git("rev-parse", "HEAD"))


def test_values_data_and_code_of_a_run(repository):
    experiment = committed(repository, lock(metrics=DIGEST))
    assert experiment.commit == git("rev-parse", "--short=12", "HEAD^")
    assert experiment.models() == ["vse"]
    run = recorded(experiment, "vse")
    assert run.params == {"seed": 0, "shapes.seed": 0, "vse.dim": 16}
    assert run.metrics == {"naive": {"rsum": 300.0}}


def test_digests_are_of_the_corpus_and_of_the_code(repository):
    first = recorded(committed(repository, lock(metrics=DIGEST)), "vse")
    for changed, corpus, code in (
        ({"dim": 8, "seed": 3}, True, True),
        ({"corpus": "C", "features": "F"}, False, True),
        ({"code": "V"}, True, False),
    ):
        second = recorded(committed(repository, lock(metrics=DIGEST, **changed)), "vse")
        assert (first.corpus == second.corpus, first.code == second.code) == (corpus, code)


def test_a_model_that_was_left_alone_is_not_taken_for_run():
    stages = lock(metrics=DIGEST)
    other_seed = lock(metrics=DIGEST, seed=1)
    stages["prepare_corpus"] = other_seed["prepare_corpus"]
    with pytest.raises(WorkbenchError, match=r"x: vse was not run anew: .* another parameter seed"):
        recorded(Experiment("x", "", stages, ""), "vse")
    stale = lock(metrics=DIGEST, trained_on="old")
    with pytest.raises(WorkbenchError, match=r"another file data/image.h5"):
        recorded(Experiment("x", "", stale, ""), "vse")


def test_metrics_that_the_lock_does_not_name_are_refused(repository):
    experiment = committed(repository, lock(metrics=DIGEST), METRICS.replace("300", "400"))
    with pytest.raises(WorkbenchError, match=r"metrics/vse.json is not the one"):
        recorded(experiment, "vse")
    with pytest.raises(WorkbenchError, match="git rev-parse"):
        read_experiment("adult-upas", "0" * 40)


@pytest.mark.parametrize("text", [b"", b"[1]", b"stages: 3", b"stages: {a: 1}", b"a: [", b"\xff"])
def test_a_lock_that_cannot_be_read_is_named(text):
    with pytest.raises(WorkbenchError, match=r"adult-upas: its dvc.lock cannot be read"):
        lock_stages(text, "adult-upas")
