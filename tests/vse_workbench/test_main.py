"""`python -m stages`: the list of all commands, what they share, and completion in a shell."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from commands import run_command

from vse_workbench.__main__ import line_of, main

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(
    file.stem
    for file in (ROOT / "stages").glob("*.py")
    if file.stem not in ("__init__", "__main__", "common", "params", "registries")
)


def test_every_command_is_listed_with_a_line():
    shown = run_command(main).stdout
    assert shown == run_command(main, "--help").stdout
    lines = dict(line.split(None, 1) for line in shown.split("Commands:\n")[1].splitlines()
                 if line.startswith("  ") and not line.startswith("   "))  # fmt: skip
    assert sorted(lines) == NAMES
    assert all(line_of(name) for name in NAMES)


def test_listing_loads_no_library_of_the_commands():
    script = "import sys, vse_workbench.__main__ as m\nm.main(['--help'], standalone_mode=False)\n"
    script += "print(*(set(sys.modules) & {'torch', 'pandas', 'h5py', 'numpy'}), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == ""


def test_a_command_runs_by_its_name_and_another_is_refused(tmp_path):
    done = run_command(main, "check_params", "--output", "o", folder=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "error: params.yaml: no such file")
    done = run_command(main, "chek_params")
    assert done.returncode == 2  # as click does for wrong usage
    assert "No such command 'chek_params'" in done.stderr


@pytest.mark.parametrize("arguments", [["--version"], ["check_params", "--version"]])
def test_the_version(arguments):
    text = (ROOT / "pyproject.toml").read_text()
    version = next(line.split('"')[1] for line in text.splitlines() if line.startswith("version"))
    assert run_command(main, *arguments).stdout.split()[-1] == version


def test_a_shell_completes_names_and_options():
    shell = BashComplete(main, {}, "workbench", "_WORKBENCH_COMPLETE")
    assert [item.value for item in shell.get_completions([], "check_")] == ["check_params"]
    found = [item.value for item in shell.get_completions(["compare_runs"], "--c")]
    assert found == ["--criterion", "--criterion-b", "--confidence"]
    assert "complete" in shell.source()


def test_no_command_writes_colours(tmp_path):
    """Also where they are asked for; NO_COLOR has nothing to switch off."""
    environment = os.environ | {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TERM": "xterm-256color"}
    for arguments in (["--help"], ["judge_run", "--help"], ["check_params", "--output", "o"]):
        done = subprocess.run(
            [sys.executable, "-m", "stages", *arguments],
            cwd=tmp_path,
            env=environment | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
        )
        assert b"\x1b" not in done.stdout + done.stderr
        assert done.stdout + done.stderr


def test_json_is_one_line_that_a_program_reads(tmp_path):
    (tmp_path / "a.run").write_text("q Q0 d 1 1 m\n")
    (tmp_path / "a.qrels").write_text("q 0 d 1\n")
    done = run_command(main, "judge_run", "a.run", "a.qrels", "--json", folder=tmp_path)
    assert json.loads(done.stdout)["r1"] == 100
    assert done.stdout.count("\n") == 1
