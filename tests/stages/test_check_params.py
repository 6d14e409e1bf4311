import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def workspace(tmp_path):
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    shutil.copytree(ROOT / "data/raw", tmp_path / "data/raw")
    return tmp_path


def lists(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_another_loss_changes_the_lists_of_what_trains_by_it_and_no_other(workspace, run_stage):
    run_stage("check_params", "--output", "a", cwd=workspace)
    params = workspace / "params.yaml"
    params.write_text(params.read_text().replace("loss: sum_margin", "loss: infonce"))
    run_stage("check_params", "--output", "b", cwd=workspace)
    before, after = lists(workspace / "a"), lists(workspace / "b")
    assert before.keys() == after.keys()
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {name for name in before if name.startswith("train") and "@" in name}
    new = set(after["train@vse"].splitlines()) - set(before["train@vse"].splitlines())
    assert [line.split()[0] for line in new] == ["models/losses/infonce.py"]
