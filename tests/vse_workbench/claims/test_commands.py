"""The lines that run what is lacking: only what differs from params.yaml, in Hydra's grammar."""

import shlex

import pytest
from claim_cases import ledger, row

from pipeline.runtime.errors import WorkbenchError
from vse_workbench.claims.commands import commands

DEFAULT = """\
seed: 0
runtime: {threads: 2}
loss: sum_margin
vse: {dim: 16, phases: [{epochs: 1}, {epochs: 2}], layers: [], pca: 3, name: a}
"""


@pytest.fixture
def recipes(tmp_path):
    (tmp_path / "default.yaml").write_text(DEFAULT)
    return tmp_path


def current(**vse):
    phases = [{"epochs": 1}, {"epochs": 2}]
    values = {"dim": 16, "phases": phases, "layers": [], "pca": 3, "name": "a"}
    return {"seed": 9, "runtime": {"threads": 8}, "loss": "sum_margin", "vse": values | vse}


def lines(recipes, rows=(), seeds=(0, 1, 2), claims=None, **vse):
    claims = claims or ledger()
    return commands(claims, claims.claims, rows, seeds, current(**vse), recipes)


QUEUE = "dvc exp run --queue evaluate@vse"


def test_a_setting_is_what_differs_from_params_yaml(recipes):
    assert lines(recipes) == [f"{QUEUE} -S seed=0,1,2", f"{QUEUE} -S vse.dim=8 -S seed=0,1,2"]
    other = f"{QUEUE} -S vse.dim=16 -S seed=0,1,2"
    assert lines(recipes, dim=8) == [other, f"{QUEUE} -S seed=0,1,2"]


def test_kept_seeds_are_not_run_again_and_old_settings_do_not_count(recipes):
    rows = [row("wide", 0, 1), row("wide", 2, 1), row("narrow", 1, 1, digest="0" * 12)]
    assert lines(recipes, rows) == [f"{QUEUE} -S seed=1", f"{QUEUE} -S vse.dim=8 -S seed=0,1,2"]
    assert lines(recipes, [row(name, 0, 1) for name in ("wide", "narrow")], seeds=[0]) == []


def test_settings_that_differ_in_their_criterion_alone_are_one_run(recipes):
    claims = ledger(second="csls")
    claims.settings["csls"].set.clear()
    assert lines(recipes, claims=claims) == [f"{QUEUE} -S seed=0,1,2"]
    rows = [row("wide", 0, 1, ledger_=claims), row("csls", 0, 1, ledger_=claims)]
    rows.append(row("wide", 2, 1, ledger_=claims))
    assert lines(recipes, rows, claims=claims) == [f"{QUEUE} -S seed=1,2"]


def test_values_are_written_as_hydra_reads_them(recipes):
    text = DEFAULT.replace("name: a", 'name: "d, e"').replace("pca: 3", "pca: null")
    (recipes / "default.yaml").write_text(text.replace("layers: []", "layers: [a, 2.5, true]"))
    line = lines(recipes, phases=[{"epochs": 1}, {"epochs": 7}])[0]
    assert shlex.split(line)[5:] == [
        *("-S", "vse.phases.1.epochs=2"),
        *("-S", "vse.layers=[a,2.5,true]"),
        *("-S", "vse.pca=null"),
        *("-S", 'vse.name="d, e"'),
        *("-S", "seed=0,1,2"),
    ]


def test_a_params_yaml_without_a_key_is_refused(recipes):
    claims, there = ledger(), current()
    del there["loss"]
    with pytest.raises(WorkbenchError, match=r"params.yaml has no loss"):
        commands(claims, claims.claims, [], [0], there, recipes)
