"""Threads that wait: what the libraries are told, whatever the shell says."""

import os
import subprocess
import sys

import pytest
from corpora import ROOT

from pipeline.runtime.threads import (
    OF_RUN,
    WAITING,
    allowed_processors,
    processes_beside,
    quota_notes,
    shorten_waiting,
)


def test_the_shell_does_not_decide():
    environment = {"GOMP_SPINCOUNT": "INFINITE", "HOME": "/root"}
    shorten_waiting(environment)
    assert environment == {"HOME": "/root", **WAITING}


def test_the_library_that_torch_loads_has_read_it():
    shown = subprocess.run(
        [sys.executable, "-c", "import stages, torch"],
        cwd=ROOT,
        env=os.environ | {"OMP_DISPLAY_ENV": "VERBOSE", "OMP_WAIT_POLICY": "ACTIVE"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"GOMP_SPINCOUNT = '{WAITING['GOMP_SPINCOUNT']}'" in shown.stderr


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "50000 100000"}, 0.5),
        ("0::/\n", {"cpu.max": "max 100000"}, None),
        ("0::/docker/abc\n", {"docker/abc/cpu.max": "25000 100000"}, 0.25),
        (
            "4:cpu,cpuacct:/job\n",
            {
                "cpu,cpuacct/job/cpu.cfs_quota_us": "75000\n",
                "cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            },
            0.75,
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("9:name=systemd:/\n", {}, None),
    ],
)
def test_the_quota_of_a_container(tmp_path, own, files, expected):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "own").write_text(own)
    bound = float(len(os.sched_getaffinity(0)))
    allowed = allowed_processors(tmp_path, tmp_path / "own")
    assert allowed == (bound if expected is None else min(bound, expected))


def test_a_stage_that_shares_the_processors_of_a_run_counts_them_all(tmp_path, monkeypatch):
    monkeypatch.setenv(OF_RUN, "7")
    assert allowed_processors(tmp_path, tmp_path / "own") == 7.0


def test_what_is_said_of_a_quota():
    assert quota_notes(2, 2.0) == []
    (line,) = quota_notes(2, 0.5)
    assert "may use 0.5 processors, runtime.threads is 2: it takes up to 4.0 times as long" in line


@pytest.mark.parametrize(
    ("threads", "wanted", "allowed", "processes"),
    [
        (2, 2, 2.0, 1),  # two threads on two processors: one process decodes beside them
        (2, 0, 2.0, 0),
        (2, 2, 4.0, 2),
        (2, 8, 6.0, 4),
        (1, 2, 2.0, 1),
        (2, 2, 0.5, 1),  # a quota of half a processor
    ],
)
def test_processes_take_what_the_threads_leave(threads, wanted, allowed, processes):
    assert processes_beside(threads, wanted, allowed) == processes
