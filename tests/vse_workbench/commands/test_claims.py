"""claims.yaml as it stands, and the commands from runs that were killed to a verdict."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from claim_cases import content
from clone import ROOT, Clone
from commands import fail, run_command
from ruamel.yaml import YAML
from warm_python import warm_python

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.yaml_text import read_yaml
from stages.params import default_values, find_problems
from vse_workbench.claims.judgement import judge_claims
from vse_workbench.claims.keeping import keep_run
from vse_workbench.claims.ledger import (
    FEATURES,
    Point,
    read_ledger,
    resolved_setting,
    search_on,
    setting_params,
)
from vse_workbench.claims.queue import Job, Planner, without_data
from vse_workbench.claims.ranks import read_ranks
from vse_workbench.claims.results import Kept, read_kept
from vse_workbench.claims.runs import Folder, committed_head
from vse_workbench.commands import claims_judge, claims_queue

LEDGER = read_ledger(ROOT / "claims.yaml")
DEFAULTS = default_values()
SIDES = {name for claim in LEDGER.claims.values() for name in (claim.first, claim.second)}


@pytest.mark.parametrize("dataset", LEDGER.datasets)
@pytest.mark.parametrize("setting", LEDGER.settings)
def test_every_setting_is_a_params_yaml_that_can_be_run(monkeypatch, setting, dataset):
    monkeypatch.chdir(ROOT)
    model = resolved_setting(LEDGER, setting).model
    search = search_on(LEDGER, setting, dataset)
    values = search.regularisation[model].values if model in search.regularisation else []
    points = [Point(), Point(min(search.factors)), Point(max(search.factors))]
    points += [Point(1.0, number) for number in range(1, len(values) + 1)]
    for point in points:
        params = setting_params(LEDGER, setting, dataset, DEFAULTS, ROOT / "recipes", point)
        assert list(find_problems(without_data(params))) == []
    criteria = ("naive", FEATURES, *params["inference"]["criteria"])
    assert resolved_setting(LEDGER, setting).criterion in criteria
    assert setting in SIDES


def test_named_claims_are_printed_and_the_document_stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Path("claims.yaml").open("w") as file:
        YAML(typ="safe").dump(content(), file)
    said = run_command(claims_judge.main, "wider").stdout
    assert "wider on world: wide lacks r1 of seeds 1, 2, 3" in said
    assert not Path("docs/claims.md").exists()
    for command in (claims_judge.main, claims_queue.main):
        said = fail(command, tmp_path, "wider", "nonsense")
        assert said == "error: no claim nonsense\nclaims: wider\n"


SMALL = {
    "raw": "data/raw/linked",
    "shapes.train": 60,
    "shapes.val": 10,
    "shapes.test": 20,
    "detector.weights": "random",
    "image_features.layers": ["layer1"],
    "image_features.workers": 0,
    "sentences.encoding": "mean_vector",
    "vocabulary.dim": 20,
    "vocabulary.epochs": 1,
    "vse.word_dim": 20,
    "vse.hidden": 8,
    "vse.training.epochs": 60,
}


@pytest.fixture
def clone(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # holds the lock of what measures
    clone, values = Clone(tmp_path / "clone"), content()
    values |= {"seeds": [1, 2], "measures": {"rsum": ["rsum"], "r1": ["i2t.r1", "t2i.r1"]}}
    values["settings"]["ranked"] = {"base": "wide", "criterion": "inverted_softmax"}
    values["claims"]["ranking"] = values["claims"]["wider"] | {"second": "ranked"}
    values["datasets"]["world"]["set"] = SMALL
    with (clone.folder / "claims.yaml").open("w") as file:
        YAML(typ="safe").dump(values, file)
    for kept in ("claims.tsv", "claims_code.tsv"):
        (clone.folder / "docs" / kept).unlink(missing_ok=True)
    clone.commit("start")
    (clone.folder / SMALL["raw"]).symlink_to(ROOT / "data/raw/shapes")
    monkeypatch.chdir(clone.folder)
    with warm_python(tmp_path / "warm") as folder:
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
        yield clone


def until(words, stream):
    """Read lines until one has these words."""
    assert any(words in line for line in stream), f"no {words}"


def printed(command):
    done = run_command(command.main)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_runs_that_were_killed_go_on_to_a_verdict(clone):
    command = [sys.executable, "-m", "vse_workbench", "claims"]
    network = Path("models/vse.py")
    network.write_text(network.read_text() + "\nEDITED = 1\n")
    with pytest.raises(WorkbenchError, match=f"not committed: {network}"):
        committed_head()
    clone.run("git", "checkout", str(network))

    log = Path("data/.work/claims/1/data/.work/run.log")
    with subprocess.Popen([*command, "run", "wider"], stderr=subprocess.PIPE, text=True) as process:
        until(": begins", process.stderr)
        said = clone.run(sys.executable, "-m", "benchmarks", "kmeans", check=False)
        assert "a benchmark or `vse claims run` is running already" in said
        until("3 of 4: ", process.stderr)
        until(": begins", process.stderr)
        with subprocess.Popen(["tail", "-F", log], stdout=subprocess.PIPE, text=True) as tail:
            until("epoch 2 ", tail.stdout)
            process.kill()
            tail.kill()
    assert "1 run: " in clone.run(*command, "run", "wider")
    assert "continuing after" in log.read_text()
    assert "2 runs: " in clone.run(*command, "run")
    assert "epoch 1" not in log.read_text()  # trained already, by a setting of another criterion

    found = read_kept(Path("docs/claims.tsv"))
    places = [(one.setting, one.seed) for one in found.rows]
    assert sorted(places) == [
        (name, seed) for name in ("narrow", "ranked", "wide") for seed in (1, 2)
    ]
    for one in found.rows:
        kept = read_ranks(found.ranks / one.ranks).ranks
        recalls = {f"{way}.r5": 100 * (own <= 5).mean() for way, own in kept.items()}
        assert {key: one.figures[key] for key in recalls} == pytest.approx(recalls)
        assert (one.last_epoch, one.cap, one.minutes > 0) == (60, 60, True)
    assert printed(claims_queue).endswith("0 runs: 0.0 hours\n")
    page = printed(claims_judge)
    for made in judge_claims(read_ledger(Path("claims.yaml")), found):
        assert (len(made.differences), made.word in page) == (2, True)

    network.write_text(network.read_text() + "\nEDITED = 1\n")
    assert "\n6 runs: " in printed(claims_queue)
    clone.commit("other code")
    with subprocess.Popen([*command, "run", "wider"], stderr=subprocess.PIPE, text=True) as process:
        until(": begins", process.stderr)
        network.write_text(network.read_text() + "\nEDITED = 2\n")
        until("was started with other code or settings than today's", process.stderr)
        process.kill()


WITHOUT_DVC = """
import runpy, sys
sys.modules |= dict.fromkeys(["dvc", "gensim"])
runpy.run_module("vse_workbench", run_name="__main__")
"""


@pytest.mark.slow
def test_runs_on_another_machine_give_the_rows_of_runs_here(clone, tmp_path):
    vse = [sys.executable, "-m", "vse_workbench", "claims"]
    packed = tmp_path / "packed"
    assert "6 runs of 3 settings" in clone.run(*vse, "pack", "--output", packed)
    elsewhere = Clone(tmp_path / "elsewhere")
    there = [sys.executable, "-c", WITHOUT_DVC, "claims", "work", packed]
    assert "0 runs, 1 cut" in elsewhere.run(*there, "--seconds", "1")
    # one training serves two settings that differ in their criterion
    assert "4 runs, 0 cut" in elsewhere.run(*there, "--processes", "2")
    assert "0 runs, 0 cut" in elsewhere.run(*there)
    network = Path("models/vse.py")
    network.write_text(network.read_text() + "\nEDITED = 1\n")
    assert "other code or settings than today's" in clone.run(*vse, "unpack", packed, check=False)
    clone.run("git", "checkout", str(network))
    assert "6 new runs" in clone.run(*vse, "unpack", packed)
    assert "0 new runs" in clone.run(*vse, "unpack", packed)
    assert printed(claims_queue).endswith("0 runs: 0.0 hours\n")
    found = read_kept(Path("docs/claims.tsv"))
    assert all(judge.differences for judge in judge_claims(read_ledger(), found))

    ranked = ("ranked", 2)  # trained as `wide`, which was packed for both
    (row,) = (one for one in found.rows if (one.setting, one.seed) == ranked)
    plan = Planner(read_ledger()).plan(row.setting, row.dataset)
    job = Job(plan, row.seed, row.point, None)
    runtime = read_yaml(Path("params.yaml"))["runtime"] | {"threads": 1}
    here = Folder(1, row.commit)
    code, _ = here.run(job, plan.params | {"seed": row.seed, "runtime": runtime})
    assert code == 0
    kept = Kept(tmp_path / "claims.tsv", [], [])
    again = keep_run(job, here.path, row.commit, row.minutes, has_collapsed=False, kept=kept)
    assert again == row
    ranks = [read_ranks(folder / row.ranks).ranks for folder in (kept.ranks, found.ranks)]
    for way, own in ranks[0].items():
        np.testing.assert_array_equal(own, ranks[1][way])
