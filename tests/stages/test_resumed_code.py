"""A killed training is continued by the very same code, `python -m stages.train` as DVC runs it."""

import os
import shutil
import signal
import subprocess
import sys

import pytest
from tiny_inputs import ROOT, options, write_inputs

ARGUMENTS = ["vse", *options(), "--output", "vse.safetensors", "--curve", "vse.tsv"]


@pytest.fixture
def folder(tmp_path):
    write_inputs(tmp_path)
    return tmp_path


@pytest.fixture
def code(tmp_path):
    """A copy of the code that may be edited."""
    for package in ("pipeline", "models", "stages"):
        shutil.copytree(ROOT / package, tmp_path / "code" / package)
    return tmp_path / "code"


def killed_training(folder, code, beginning):
    """Standard error of a training by that code, killed at the first line that begins so."""
    lines = []
    with subprocess.Popen(
        [sys.executable, "-m", "stages.train", *ARGUMENTS],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(code)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stderr:
            lines.append(line)
            if line.startswith(beginning):
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL, "".join(lines)
    return "".join(lines)


@pytest.mark.slow
def test_a_killed_training_is_not_continued_by_other_code(folder, code):
    """The objective is edited, and put back: work of the first code is continued by it alone."""
    objective = code / "models/vse/model.py"
    written = objective.read_text()
    edited = written.replace("scores = model(batch.images", "scores = 2 * model(batch.images")
    assert edited != written
    killed_training(folder, code, "epoch 2")
    objective.write_text(edited)
    assert "continuing" not in killed_training(folder, code, "epoch 1 ")
    objective.write_text(written)
    again = killed_training(folder, code, "epoch 4")
    assert "continuing after " in again
    assert "epoch 2 (" not in again
