"""The lines that run what is lacking: only what differs from params.yaml, in Hydra's grammar."""

import shlex
from pathlib import Path

import pytest
from claim_cases import ledger, row

from pipeline.runtime.errors import WorkbenchError
from vse_workbench.claims.commands import commands

VSE = {"dim": 16, "phases": [{"epochs": 1}, {"epochs": 2}], "layers": [], "pca": 3, "name": "a"}
DEFAULTS = {"seed": 0, "runtime": {"threads": 2}, "loss": "sum_margin", "vse": VSE}
RECIPES = Path("recipes")  # none is read


def current(**vse):
    return {"seed": 9, "runtime": {"threads": 8}, "loss": "sum_margin", "vse": VSE | vse}


def lines(rows=(), seeds=(0, 1, 2), claims=None, defaults=DEFAULTS, **vse):
    claims = claims or ledger()
    return commands(claims, claims.claims, rows, seeds, current(**vse), defaults, RECIPES)


QUEUE = "dvc exp run --queue evaluate@vse"


def test_a_setting_is_what_differs_from_params_yaml():
    assert lines() == [f"{QUEUE} -S seed=0,1,2", f"{QUEUE} -S vse.dim=8 -S seed=0,1,2"]
    other = f"{QUEUE} -S vse.dim=16 -S seed=0,1,2"
    assert lines(dim=8) == [other, f"{QUEUE} -S seed=0,1,2"]


def test_kept_seeds_are_not_run_again_and_old_settings_do_not_count():
    rows = [row("wide", 0, 1), row("wide", 2, 1), row("narrow", 1, 1, digest="0" * 12)]
    assert lines(rows) == [f"{QUEUE} -S seed=1", f"{QUEUE} -S vse.dim=8 -S seed=0,1,2"]
    assert lines([row(name, 0, 1) for name in ("wide", "narrow")], seeds=[0]) == []


def test_settings_that_differ_in_their_criterion_alone_are_one_run():
    claims = ledger(second="csls")
    claims.settings["csls"].set.clear()
    assert lines(claims=claims) == [f"{QUEUE} -S seed=0,1,2"]
    rows = [row("wide", 0, 1, ledger_=claims), row("csls", 0, 1, ledger_=claims)]
    rows.append(row("wide", 2, 1, ledger_=claims))
    assert lines(rows, claims=claims) == [f"{QUEUE} -S seed=1,2"]


def test_values_are_written_as_hydra_reads_them():
    vse = VSE | {"name": "d, e", "pca": None, "layers": ["a", 2.5, True]}
    line = lines(defaults=DEFAULTS | {"vse": vse}, phases=[{"epochs": 1}, {"epochs": 7}])[0]
    assert shlex.split(line)[5:] == [
        *("-S", "vse.phases.1.epochs=2"),
        *("-S", "vse.layers=[a,2.5,true]"),
        *("-S", "vse.pca=null"),
        *("-S", 'vse.name="d, e"'),
        *("-S", "seed=0,1,2"),
    ]


def test_a_params_yaml_without_a_key_is_refused():
    claims, there = ledger(), current()
    del there["loss"]
    with pytest.raises(WorkbenchError, match=r"params.yaml has no loss"):
        commands(claims, claims.claims, [], [0], there, DEFAULTS, RECIPES)
