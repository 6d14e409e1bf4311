"""claims.yaml as it stands, and the three commands from a queue's line to docs/claims.md."""

import json
from hashlib import md5
from pathlib import Path

import pytest
from claim_cases import content, lock
from click.testing import CliRunner
from commands import fail, git
from ruamel.yaml import YAML

from pipeline.runtime.graph import stage_items
from stages.params import default_values, find_problems
from vse_workbench.claims.commands import wanted
from vse_workbench.claims.ledger import evaluation, read_ledger, resolved, setting_params
from vse_workbench.commands import claims_judge as judge_claims
from vse_workbench.commands import claims_keep as keep_results
from vse_workbench.commands import claims_queue as queue_claims

ROOT = Path(__file__).resolve().parents[3]
LEDGER = read_ledger(ROOT / "claims.yaml")
DEFAULTS = default_values()
HEAD = "Experiment,rev,typ,Created,parent,State,Executor,seed\n"


@pytest.mark.parametrize(("setting", "dataset"), wanted(LEDGER, LEDGER.claims))
def test_every_setting_is_a_params_yaml_that_can_be_run(monkeypatch, setting, dataset):
    monkeypatch.chdir(ROOT)
    params = setting_params(LEDGER, setting, dataset, DEFAULTS, ROOT / "recipes")
    if dataset != "shapes_hard":  # photographs are not in the repository
        params["raw"] = str(ROOT)
    assert list(find_problems(params)) == []
    stage, _, model = evaluation(resolved(LEDGER, setting).model).partition("@")
    assert model in stage_items(stage)
    criterion = resolved(LEDGER, setting).criterion
    assert criterion in ("naive", *params["inference"]["criteria"])


def test_every_setting_is_compared_by_a_claim():
    assert {setting for setting, _ in wanted(LEDGER, LEDGER.claims)} == set(LEDGER.settings)


def test_the_document_is_what_the_command_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(judge_claims.main, ["--output", str(tmp_path / "claims.md")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "claims.md").read_text() == (ROOT / "docs/claims.md").read_text()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("recipes").mkdir()
    Path("docs").mkdir()
    Path("params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    with Path("claims.yaml").open("w") as file:
        YAML(typ="safe").dump(content(), file)
    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message", "start")
    return tmp_path


def experiment(name, dim, seed, rsum):
    """A line of `dvc exp show --csv` of an experiment on top of the first commit."""
    text = json.dumps({"naive": {"rsum": rsum}})
    Path("metrics").mkdir(exist_ok=True)
    Path("metrics/vse.json").write_text(text)
    stages = lock(dim=dim, seed=seed, metrics=md5(text.encode()).hexdigest())
    with Path("dvc.lock").open("w") as file:
        YAML(typ="safe").dump({"stages": stages}, file)
    git("add", "--all")
    git("commit", "--quiet", "--message", name)
    revision = git("rev-parse", "HEAD")
    git("reset", "--hard", "--quiet", "HEAD^")
    return f"{name},{revision},branch_commit,,,Success,,{seed}\n"


def invoke(command, *words, text=None):
    result = CliRunner().invoke(command, words, input=text)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_from_the_lines_of_a_queue_to_a_verdict(repository):
    queued = invoke(queue_claims.main, "--seeds", "3")
    assert queued.splitlines()[1].endswith("evaluate@vse -S vse.dim=8 -S seed=0,1,2")
    runs = [(16, 0, 330), (16, 1, 351), (16, 2, 342), (8, 0, 320), (8, 1, 340), (8, 2, 330)]
    csv = HEAD + "".join(experiment(f"e{n}", *run) for n, run in enumerate(runs))
    csv += experiment("odd", 5, 0, 1)
    told = invoke(keep_results.main, text=csv)
    assert "e1: wide on world seed 1\n" in told
    assert "odd: no setting of claims.yaml\n" in told
    assert told.endswith("docs/claims.tsv: 6 runs, 6 of them new\n")
    assert invoke(keep_results.main, text=csv).endswith("6 runs, 0 of them new\n")
    assert invoke(queue_claims.main, "--seeds", "3") == ""
    printed = invoke(judge_claims.main)
    assert "holds, as large as published" in printed
    written = Path("docs/claims.md").read_text()
    assert "| **holds**, as large as published: +11.0 (+8.5 to +13.5), n 3 |" in written


def test_named_claims_are_printed_and_the_document_stays(repository):
    invoke(judge_claims.main, "wider")
    assert not Path("docs/claims.md").exists()
    for command in (judge_claims.main, queue_claims.main):
        said = fail(command, repository, "wider", "nonsense")
        assert said == "error: no claim nonsense\nclaims: wider\n"
