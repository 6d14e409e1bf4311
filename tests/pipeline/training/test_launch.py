"""When a training is started again in several processes, and when it is not."""

from types import SimpleNamespace

import pytest

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import LAUNCHER, RANK, TORCHRUN
from pipeline.training.launch import _run, relaunched_with_torchrun

FITTED = SimpleNamespace(dim=4)
TRAINED = SimpleNamespace(training=SimpleNamespace(batch_size=3))


@pytest.fixture
def launched(monkeypatch):
    """As one of several processes that torchrun has started."""

    def by_torchrun(processes):
        monkeypatch.setenv(TORCHRUN, "here")
        monkeypatch.setenv(RANK, "0")
        monkeypatch.setenv("WORLD_SIZE", str(processes))

    return by_torchrun


def relaunched(config, wanted):
    return relaunched_with_torchrun("train", "vse", config, wanted)


@pytest.mark.parametrize(("config", "wanted"), [(FITTED, 1), (FITTED, 9), (TRAINED, 1)])
def test_one_process_does_the_work_itself(config, wanted):
    assert relaunched(config, wanted) is False


def test_a_model_that_is_fitted_at_once_refuses_torchrun(launched):
    launched(1)
    assert relaunched(FITTED, 1) is False
    launched(2)
    with pytest.raises(WorkbenchError, match=r"start it without torchrun: python -m stages.train"):
        relaunched(FITTED, 1)


def test_each_process_needs_a_row_of_the_batch(launched):
    with pytest.raises(WorkbenchError, match=r"4 processes for vse.training.batch_size = 3"):
        relaunched(TRAINED, 4)
    launched(3)
    assert relaunched(TRAINED, 1) is False
    launched(4)
    with pytest.raises(WorkbenchError, match=r"allowed are 1 to 3; lower runtime.processes"):
        relaunched(TRAINED, 1)


PROGRAM = """
import os, pathlib, sys
rank = int(os.environ["RANK"])
pathlib.Path(sys.argv[1], f"{rank} of {os.environ['WORLD_SIZE']}").touch()
sys.exit(rank * int(sys.argv[2]))
"""


@pytest.mark.parametrize("code", [0, 3])
def test_a_module_runs_in_as_many_processes_as_wanted(tmp_path, monkeypatch, code):
    """By torch's launcher; its exit code is that of the one that fails."""
    (tmp_path / "say_rank.py").write_text(PROGRAM)
    (tmp_path / "ranks").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv(LAUNCHER, "")  # which the launch sets
    assert _run("say_rank", [str(tmp_path / "ranks"), str(code)], 2) == code
    if code == 0:  # else one may be stopped before it begins
        assert sorted(path.name for path in (tmp_path / "ranks").iterdir()) == ["0 of 2", "1 of 2"]
