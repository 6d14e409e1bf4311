"""What is to be run: digests of settings and code, and the order and cost of what lacks."""

import shutil
from contextlib import chdir
from pathlib import Path

import pandas as pd
import pytest
from claim_cases import content, planned, row
from clone import ROOT

from pipeline.runtime.errors import WorkbenchError
from vse_workbench.claims.keeping import epoch_limits, epochs_of_phase, trainings_of
from vse_workbench.claims.ledger import Ledger, Point
from vse_workbench.claims.queue import Planner, cost_text, lacking_jobs
from vse_workbench.claims.results import Searched, searched

# a value over those of a setting: whether it changes the digests of settings and of code
CHANGES = [
    ("narrow", "vse.hidden", 7, True, False),
    ("narrow", "training.patience", 7, True, False),
    ("narrow", "loss", "knn_margin", True, True),
    ("narrow", "evaluation.folds", 2, True, False),
    ("narrow", "two_branch.dim", 7, False, False),
    ("narrow", "scoring.shortlist", 7, False, False),
    ("narrow", "evaluation.bootstrap", 7, False, False),
    ("narrow", "inference.k", 7, False, False),
    ("narrow", "seed", 7, False, False),
    ("csls", "inference.k", 7, True, False),
    ("attending", "scoring.shortlist", 7, True, False),
]


@pytest.fixture(scope="module")
def planner():
    values = content()
    odd = {"set": {"vse.dim": 0}}, {"model": "moon", "set": {}}
    changed = [(base, {"set": {key: value}}) for base, key, value, *_ in CHANGES]
    for number, (base, own) in enumerate([*changed, ("narrow", odd[0]), ("narrow", odd[1])]):
        values["settings"][f"v{number}"] = {"base": base, **own}
    values["settings"]["attending"] = {"model": "dp_rnn"}
    with chdir(ROOT):
        yield Planner(Ledger.model_validate(values))


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_digests_are_of_what_the_stages_read(planner, number):
    base, *_, digest, code = CHANGES[number]
    before, after = (planner.plan(name, "world") for name in (base, f"v{number}"))
    assert (before.digest != after.digest, before.code != after.code) == (digest, code)
    model = "dp_rnn" if base == "attending" else "vse"
    assert (before.stage, "train@vse" in before.stages) == (f"evaluate@{model}", model == "vse")


def test_the_code_of_a_training_is_apart_from_that_of_its_evaluation(planner, tmp_path):
    """A source that only evaluate loads changes the code of a run, not that of its training; one of
    the model changes both."""
    for name in ("pipeline", "models", "stages", "recipes"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("dvc.yaml", "params.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    edited = {"pipeline/evaluation/rank_file.py": False, "models/vse.py": True}
    with chdir(tmp_path):
        before = Planner(planner.ledger).plan("narrow", "world")
        for file, is_trained in edited.items():
            source = Path(file).read_text()
            Path(file).write_text(source + "\nEDITED = 1\n")
            after = Planner(planner.ledger).plan("narrow", "world")
            Path(file).write_text(source)
            assert after.code != before.code
            assert (after.trained != before.trained) == is_trained


def test_a_setting_that_cannot_be_run_is_named(planner):
    with pytest.raises(WorkbenchError, match=r"setting v11 on world:\n  vse.dim = 0"):
        planner.plan("v11", "world")
    with pytest.raises(WorkbenchError, match="setting v12: no model moon"):
        planner.plan("v12", "world")


def named(jobs):
    return [(job.plan.setting, job.seed, job.point and job.point.factor) for job in jobs]


def test_a_search_comes_first_and_chooses_the_factor_of_the_seeds():
    ledger = Ledger.model_validate(content())
    plans = [planned("narrow", "vse", dim=1), planned("searched")]
    seeds = [("narrow", seed, 1.0) for seed in (1, 2, 3)]
    search = [("searched", 0, 0.5), ("searched", 0, 1.0), ("searched", 0, 3.0)]
    jobs = lacking_jobs(ledger, plans, [])
    assert named(jobs) == [*search, *seeds, *(("searched", seed, None) for seed in (1, 2, 3))]
    assert cost_text(jobs) == "0.0 hours and 9 runs of unknown cost"
    values = [9.0, 8.0, 7.0]
    rows = [row(*one[:2], factor=one[2], val_rsum=v) for one, v in zip(search, values, strict=True)]
    rows += [row("searched", 2, factor=0.5), row("narrow", 1, code="older", minutes=60.0)]
    jobs = lacking_jobs(ledger, plans, rows)
    assert named(jobs) == [*seeds, ("searched", 1, 0.5), ("searched", 3, 0.5)]
    assert cost_text(jobs) == f"{(3 * 60 + 2 * 2.5) / 60:.1f} hours"


def test_a_search_goes_on_beyond_its_edge_and_then_tries_the_regularisation():
    values = content()
    values["datasets"]["world"]["search"] = {
        "seeds": 2,
        "factors": [0.1, 0.3, 1.0, 3.0, 10.0],
        "first": [1.0, 3.0],
        "keys": {"two_branch": ["two_branch.training.lr"]},
        "regularisation": {"two_branch": {"key": "two_branch.dropout", "values": [0.0]}},
    }
    ledger = Ledger.model_validate(values)
    plans = [planned("searched")]
    rows = []

    def searches():
        jobs = [job for job in lacking_jobs(ledger, plans, rows) if job.is_of_search]
        return [(job.seed, *job.point) for job in jobs]

    def run(factor, first, second, regularisation=0):
        own = {"factor": factor, "regularisation": regularisation}
        rows.append(row("searched", 0, val_rsum=first, **own))
        rows.append(row("searched", 901, val_rsum=second, **own))

    assert searches() == [(0, 1.0, 0), (901, 1.0, 0), (0, 3.0, 0), (901, 3.0, 0)]
    run(1.0, 9.0, 1.0)  # the best of the first seed
    run(3.0, 5.0, 4.0)  # has the lower mean
    assert searches() == [(0, 0.3, 0), (901, 0.3, 0)]
    run(0.3, 6.0, 6.0)
    assert searches() == [(0, 0.1, 0), (901, 0.1, 0)]
    rows.append(row("searched", 0, factor=0.1, val_rsum=99.0))
    assert searches() == [(901, 0.1, 0)]  # one seed decides nothing
    rows.pop()
    run(0.1, 5.0, 5.0)
    assert searches() == [(0, 0.3, 1), (901, 0.3, 1)]
    run(0.3, 6.5, 6.5, regularisation=1)
    assert searches() == []
    found = searched(ledger, "searched", "world", rows)
    assert found == Searched([], Point(0.3, 1), is_at_edge=False)
    assert {job.point for job in lacking_jobs(ledger, plans, rows)} == {Point(0.3, 1)}
    run(0.1, 9.0, 9.0)  # the last of all: nothing is beyond it
    assert searched(ledger, "searched", "world", rows[:6] + rows[-2:]).lacking == [Point(0.1, 1)]
    run(0.1, 1.0, 1.0, regularisation=1)
    assert searched(ledger, "searched", "world", rows[:6] + rows[-4:]).is_at_edge


def test_the_most_epochs_of_each_phase():
    assert epoch_limits({"training": {"epochs": 9}, "mining": {"epochs": 0}}, "knn") == {"knn": 9}
    tuned = {"training": {"epochs": 9}, "fine_tuning": {"epochs": 4}}
    assert epoch_limits(tuned, "knn") == {"knn": 9, "fine_tuning": 4}
    assert epoch_limits({"phases": [{"name": "a", "epochs": 5}], "training": {}}, "knn") == {"a": 5}
    epochs = {"training": {"epochs": {"matching": 5, "recurrent": 1, "all": 2}}, "recurrent": True}
    assert epoch_limits(epochs, "knn") == {"matching": 5, "recurrent": 1, "all": 2}
    assert epoch_limits(epochs | {"recurrent": False}, "knn") == {"matching": 7}
    assert epoch_limits({"dim": 1}, "knn") == {}


def test_epochs_that_an_early_fall_of_the_rate_left_out_could_not_be_the_best():
    """Of 9 epochs 3 were left out, so the sixth was the last: the training is not at its end."""
    phases, ended = ["sum", "knn", "a", "a", "a", "a"], [None, "epochs", *[None] * 3, "epochs"]
    curve = pd.DataFrame({"phase": phases, "ended": ended})
    allowed = {"knn": 2, "a": 7}
    assert epochs_of_phase(curve, 6, allowed, "knn") == (4, 4, 4)
    assert epochs_of_phase(curve, 2, allowed, "knn") == (2, 2, 2)
    curve.loc[5, "ended"] = "patience"
    assert epochs_of_phase(curve, 5, allowed, "knn") == (3, 4, 7)
    assert epochs_of_phase(curve[["phase"]][:1], 1, {}, "knn") == (1, 1, 0)


def test_networks_that_were_trained_in_turn_have_a_kept_epoch_each():
    parts = ["word"] * 3 + ["object"] * 2 + ["together"]
    curve = pd.DataFrame({"part": parts, "phase": list("aabaab"), "best": [0, 0, 3, 1, 1, 3]})
    (word, kept_word), (thing, kept_object) = trainings_of(curve, 3)
    assert (kept_word, kept_object) == (3, 1)
    assert word["phase"].tolist() == ["a", "a", "b"]
    assert thing.index.tolist() == [0, 1]
    assert trainings_of(curve[["phase"]], 5)[0][1] == 5
