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


def test_no_code_is_loaded_that_the_fingerprint_does_not_cover(folder):
    """Taken in the process of a real training: no import by name comes after the digest."""
    script = (
        "import runpy, sys\n"
        "from pipeline.runtime import files\n"
        "covered, digest = [], files.source_digest\n"
        "files.source_digest = lambda: covered.append(files.source_files()) or digest()\n"
        "try:\n"
        "    runpy.run_module('stages.train', run_name='__main__', alter_sys=True)\n"
        "except SystemExit as stop:\n"
        "    assert not stop.code, stop\n"
        "assert len(covered[0]) > 50, covered\n"
        "assert files.source_files() <= covered[0], files.source_files() - covered[0]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *ARGUMENTS],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "vse.safetensors").is_file()
