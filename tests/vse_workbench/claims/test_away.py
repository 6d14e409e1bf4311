"""What a packed folder asks for, step by step; with the stages themselves: test_claims.py."""

import re
import sys

import pytest
import yaml
from claim_cases import content, planned, row

from pipeline.runtime.errors import WorkbenchError
from vse_workbench.claims.away import (
    LEDGER,
    ROWS,
    Away,
    Packed,
    Queue,
    Step,
    read_queue,
    runs_done,
    work,
    write_queue,
)
from vse_workbench.claims.packing import trained_alike
from vse_workbench.claims.results import write_rows

STAGE = """
import json, sys
from pathlib import Path
import click

@click.command()
@click.option("--output")
def main(output):
    params = json.loads(Path("params.yaml").read_text())
    if params["seed"] == 2 and not Path({flag!r}).exists():
        print("a line\\nerror: seed 2")
        sys.exit(1)
    text = Path("data/input.txt").read_text()
    Path(output).write_text(f"{{text}} {{params['seed']}} {{params['vse']['dim']}}")
"""


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """A folder with a setting whose only stage writes what it has read; seed 2 fails at first."""
    (tmp_path / "stage_of_test.py").write_text(STAGE.format(flag=str(tmp_path / "mended")))
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "packed"
    (folder / "inputs").mkdir(parents=True)
    for name in ("even", "odd"):
        (folder / "inputs" / name).write_text(name)
    (folder / LEDGER).write_text(yaml.safe_dump(content()))
    step = Step("python -m stage_of_test --output data/out.txt", (), ("data/out.txt",))
    inputs = {seed: {"data/input.txt": "odd" if seed % 2 else "even"} for seed in (1, 2, 3)}
    plan = planned("narrow", "vse")
    write_queue(folder, Queue("c" * 12, (Packed(plan, inputs, (step,)),)))
    write_rows(folder / ROWS, [])
    yield folder
    sys.modules.pop("stage_of_test", None)


def written(folder):
    return sorted((place / "data/out.txt").read_text() for place in runs_done(folder))


def test_runs_that_fail_are_named_and_tried_again(packed, tmp_path):
    with pytest.raises(WorkbenchError, match=r"1 run failed: narrow on world, seed 2"):
        work(Away(packed, tmp_path / "runs"), processes=2, seconds=60)
    assert written(packed) == ["odd 1 8", "odd 3 8"]
    (log,) = (tmp_path / "runs").rglob("run.log")
    assert "error: seed 2" in log.read_text()
    (tmp_path / "mended").touch()
    work(Away(packed, tmp_path / "runs"), processes=2, seconds=60)
    assert written(packed) == ["even 2 8", "odd 1 8", "odd 3 8"]
    assert Away(packed, tmp_path / "runs").ready([]) == []
    assert [one.row.seed for one in runs_done(packed).values()] == [1, 2, 3]
    assert not any(path.is_symlink() for path in packed.rglob("*"))


def test_rows_that_were_kept_before_are_not_run_again(packed, tmp_path):
    (only,) = read_queue(packed).packed
    write_rows(packed / ROWS, [row("narrow", 2, digest=only.plan.digest, code=only.plan.code)])
    assert [job.seed for job in Away(packed, tmp_path / "runs").ready([])] == [1, 3]


def test_nothing_but_modules_is_run(packed, tmp_path):
    (only,) = read_queue(packed).packed
    steps = (Step("sh -c ls", (), ()),)
    write_queue(packed, Queue("c" * 12, (Packed(only.plan, only.inputs, steps),)))
    with pytest.raises(WorkbenchError, match=re.escape("sh -c ls: only `python -m` runs here")):
        work(Away(packed, tmp_path / "runs"), processes=1, seconds=60)


def test_one_training_serves_settings_that_differ_in_their_criterion():
    wide, csls, narrow = (
        planned(name, "vse", dim=dim) for name, dim in (("a", 2), ("b", 2), ("c", 1))
    )
    assert trained_alike([wide, narrow, csls]) == [[wide, csls], [narrow]]
