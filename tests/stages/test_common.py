"""What all commands share: messages of the operating system, one run at a time, Ctrl-C."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import fail, heed_ctrl_c, succeed
from corpora import ROOT, change_params

from pipeline.runtime.process import say
from stages.check_params import main as check_params
from stages.common import fail as end_with


@pytest.fixture
def project(tmp_path: Path) -> Path:
    change_params(tmp_path)
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("output", "message"),
    [("params.yaml", "params.yaml: File exists"), ("x" * 300, "File name too long")],
)
def test_a_path_of_the_wrong_kind_is_a_plain_line(project: Path, output: str, message: str) -> None:
    said = fail(check_params, project, "--output", output)
    assert message in said
    assert len(said.splitlines()) == 2


def started(folder: Path, *words: str, paths: tuple[Path, ...] = (ROOT,), **pipes: int):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [sys.executable, *words]
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, preexec_fn=heed_ctrl_c, **pipes
    )


HOLDER = """
import sys
from pathlib import Path
from pipeline.runtime.lock import hold_lock
with hold_lock(Path("data/.work/locks/check_params.lock"), "check_params"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_run_of_a_stage_says_who_holds_it(project: Path) -> None:
    with started(project, "-c", HOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == "held\n"
        said = fail(check_params, project, "--output", "x.ok")
        assert f"check_params is running already, as process {other.pid}" in said
        assert not (project / "x.ok").exists()
        other.stdin.close()
    succeed(check_params, project, "--output", "x.ok")


SLOW = "import sys\nprint('importing', flush=True)\nfor _ in range(10**9): pass\n"


@pytest.mark.parametrize("module", ["click", "pydantic"])
@pytest.mark.parametrize(
    "program", [["stages.check_params", "--output", "x.ok"], ["vse_workbench", "complete"]]
)
def test_ctrl_c_while_libraries_are_loaded(tmp_path: Path, program: list[str], module: str) -> None:
    """A library that never ends its import stands for the seconds that real ones take."""
    (tmp_path / f"{module}.py").write_text(SLOW)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(tmp_path, "-m", *program, paths=(tmp_path, ROOT), **pipes) as process:
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert (process.returncode, said) == (
        130,
        "error: interrupted; run the same command to continue\n",
    )


def test_marks_that_rewrite_a_terminal_are_written_out(capsys: pytest.CaptureFixture) -> None:
    text = "a\x1b[2Jb\x9bc\u202ed\u2066e\ud800f é日本 \t\n"
    say(text)
    assert capsys.readouterr().err == ("a\\x1b[2Jb\\x9bc\\u202ed\\u2066e\\ud800f é日本 \t\n\n")
    with pytest.raises(SystemExit):
        end_with("id \x1b]0;title\x07")
    assert capsys.readouterr().err == "error: id \\x1b]0;title\\x07\n"
