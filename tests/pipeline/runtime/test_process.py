import platform
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress, duration
from pipeline.runtime.repeatable import pick_device, seed_everything, set_threads


def draw():
    return random.random(), np.random.rand(), torch.rand(1).item()  # noqa: NPY002


def test_seed_repeats_every_generator():
    seed_everything(3)
    first = draw()
    seed_everything(3)
    assert draw() == first
    seed_everything(4)
    assert draw() != first


def test_threads_reach_torch_and_blas():
    before = torch.get_num_threads()
    try:
        set_threads(1)
        assert torch.get_num_threads() == 1
        assert all(library["num_threads"] == 1 for library in threadpool_info())
    finally:
        set_threads(before)


FAULTS = """
import resource, torch
from pipeline.runtime.process import duration, keep_freed_memory
torch.set_num_threads(1)
{call}
for _ in range(30):  # until the heap has a place for it
    torch.empty(1 << 23).fill_(1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.empty(1 << 23).fill_(1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_is_used_again():
    """Ten tensors of 32 MB, one after the other: no new page, where glibc alone takes all anew."""

    def faults(call):
        run = [sys.executable, "-c", FAULTS.format(call=call)]
        return int(subprocess.run(run, capture_output=True, text=True, check=True).stdout)

    assert faults("keep_freed_memory()") < faults("") / 100


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_without_a_device_is_a_plain_error():
    with pytest.raises(WorkbenchError, match="sees no CUDA device"):
        pick_device("cuda")
    assert pick_device("auto").type == "cpu"


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
