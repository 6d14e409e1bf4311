"""`runtime.processes`: a training that torchrun's engine runs, killed twice and finished alone."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from clone import ROOT
from commands import fail, succeed
from model_runs import CCA, VSE
from tiny_inputs import write_inputs, write_sentences

from stages.train import main as train_stage

pytestmark = pytest.mark.slow

SEVERAL = {"runtime__processes": 2}
LONG = {"training__epochs": 12}


@pytest.fixture
def world(tmp_path):
    write_inputs(tmp_path)
    return tmp_path


def begun(folder):
    """`python -m stages.train vse` with params.yaml as it is, what it prints in a pipe."""
    return subprocess.Popen(
        [sys.executable, "-m", "stages.train", *VSE.training_command()],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def until_epoch(process):
    """The lines until the next epoch is done, its state written."""
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("epoch "):
            return lines
    raise AssertionError("".join(lines))


def workers(process):
    """Process numbers of the training's processes, by their place."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    found = {}
    for child in map(int, children):
        told = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        own = dict(line.partition(b"=")[::2] for line in told)
        if b"RANK" in own:
            found[int(own[b"RANK"])] = child
    return found


def test_killed_it_ends_whole_and_goes_on_with_any_number_of_processes(world):
    VSE.set_params(world, **LONG)
    VSE.run_training(world)
    alone = VSE.checkpoint(world).weights
    (world / "out/vse.safetensors").unlink()
    VSE.set_params(world, **LONG, **SEVERAL)

    first = begun(world)
    until_epoch(first)
    first.kill()
    first.stderr.read()  # ends when the last process has gone that could write to it
    first.wait()
    assert not (world / "out/vse.safetensors").exists()

    second = begun(world)
    assert any(line.startswith("continuing after ") for line in until_epoch(second))
    os.kill(workers(second)[1], signal.SIGKILL)
    said = second.stderr.read()
    assert second.wait() == 1
    assert "error: process 1 of 2 was ended by SIGKILL, the others were stopped\n" in said
    assert "Traceback" not in said

    VSE.set_params(world, **LONG)
    third = begun(world)
    assert "continuing after " in third.stderr.read()
    assert third.wait() == 0
    weights = VSE.checkpoint(world).weights
    torch.testing.assert_close(weights, alone, rtol=1e-3, atol=1e-5)
    assert not list((world / "data/.work").glob("*"))


def test_more_processes_than_a_batch_has_rows_are_refused(world):
    VSE.set_params(world, runtime__processes=9)
    message = VSE.refused(world)
    assert "9 processes for vse.training.batch_size = 8" in message
    assert "allowed are 1 to 8" in message


def test_what_one_process_does_is_not_started_by_torchrun(world, monkeypatch):
    write_sentences(world)
    told = {"TORCHELASTIC_RUN_ID": "1", "RANK": "0", "WORLD_SIZE": "2"}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    message = fail(train_stage, world, *CCA.training_command())
    assert "cca is fitted at once, by one process" in message


def test_processes_change_nothing_for_a_model_that_is_fitted_at_once(world):
    write_sentences(world)
    first = CCA.train(world)
    CCA.set_params(world, **SEVERAL)
    succeed(train_stage, world, *CCA.training_command())
    assert CCA.results(world) == first
