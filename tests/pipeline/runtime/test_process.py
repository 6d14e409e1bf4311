import os

import pytest
import torch
from threadpoolctl import threadpool_info

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress, duration
from pipeline.runtime.repeatable import pick_device, seed_everything, set_threads


def test_threads_reach_torch_and_blas():
    before = torch.get_num_threads()
    try:
        set_threads(1)
        assert torch.get_num_threads() == 1
        assert all(library["num_threads"] == 1 for library in threadpool_info())
    finally:
        set_threads(before)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_without_a_device_is_a_plain_error():
    with pytest.raises(WorkbenchError, match="sees no CUDA device"):
        pick_device("cuda")
    assert pick_device("auto").type == "cpu"


def test_workspaces_of_cublas_are_those_of_the_project_whatever_the_shell_says(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    seed_everything(0)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_progress_prints_lines_where_there_is_no_terminal(capsys, monkeypatch):
    with Progress("extract", total=4, unit="images", done=1, interval=0.0) as progress:
        progress.update(1)
        progress.update(2, note="loss 0.5")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("extract: 2/4 images, ")
    assert lines[0].endswith("s left")
    assert lines[-1].startswith("extract: 4/4 images, ")
    assert lines[-1].endswith("done · loss 0.5")
    monkeypatch.setenv("CI", "true")  # where nobody watches
    with Progress("extract", total=4, unit="images", interval=0.0) as progress:
        progress.update(1)
        progress.update(3)
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (59.6, "1 min"),
        (725, "12 min 5 s"),
        (3600, "1 h"),
        (12000, "3 h 20 min"),
        (364103, "4 d 5 h"),
        (86400 + 59, "1 d"),
        (float("inf"), "unknown time"),
    ],
)
def test_times_are_for_people(seconds, text):
    assert duration(seconds) == text
