"""The command `vse`: what it lists, how a command is found, what all share, a Python without it."""

import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete
from clone import ROOT
from commands import run_command

from vse_workbench import commands
from vse_workbench.commands import files, group_and_line, vse

FILES = sorted(
    path for path in (ROOT / "vse_workbench/commands").glob("*.py") if path.stem != "__init__"
)
NAMES = sorted(files())
HEAVY = {"torch", "pandas", "h5py", "numpy"}


def loaded_by(script):
    """Which of the heavy libraries a script loads."""
    script += f"\nimport sys; print(*sorted(set(sys.modules) & {HEAVY}))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1]


def test_every_file_is_a_command_and_has_a_line_under_its_group():
    shown = run_command(vse).stdout
    assert shown == run_command(vse, "--help").stdout == run_command(vse, "-h").stdout
    assert len(NAMES) == len(FILES)
    for name, path in files().items():
        title, line = group_and_line(path)
        part = shown.split(f"\n\n{title.capitalize()}:\n")[1].split("\n\n")[0]
        listed = dict(each.strip().split("  ", 1) for each in part.splitlines() if each[2] != " ")
        assert line.startswith(listed[name].strip())


def test_a_new_command_is_one_new_file(monkeypatch, tmp_path):
    text = '"""Count to three."""\n\nimport click\n\nGROUP = "look"\n\n'
    text += "@click.command()\ndef main():\n    click.echo('1 2 3')\n"
    (tmp_path / "export_numbers.py").write_text(text)
    monkeypatch.setattr(commands, "FOLDER", tmp_path)
    monkeypatch.setattr(commands, "__path__", [str(tmp_path)])
    assert "Look:\n  export numbers  Count to three.\n" in run_command(vse).stdout
    assert run_command(vse, "export", "numbers").stdout == "1 2 3\n"
    sys.modules.pop("vse_workbench.commands.export_numbers")


def test_the_package_listing_and_completing_load_no_library_of_the_commands():
    script = "from vse_workbench.commands import vse\nvse(['--help'], standalone_mode=False)\n"
    script += "from click.shell_completion import BashComplete\n"
    script += "BashComplete(vse, {}, 'vse', '_VSE_COMPLETE').get_completions([], 's')"
    assert loaded_by(script) == ""


def test_the_package_gives_the_embedder():
    assert "torch" in loaded_by("from vse_workbench import Embedder")
    import vse_workbench

    with pytest.raises(AttributeError, match="no attribute 'Embeder'"):
        vse_workbench.Embeder  # noqa: B018


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_a_command_ends_with_an_example_that_it_understands(name):
    shown = run_command(vse, *name.split(), "-h").stdout
    assert shown.startswith(f"Usage: vse {name} [OPTIONS]")
    example = shown.rstrip().splitlines()[-1].strip().removeprefix("Example: ")
    words = shlex.split(example)
    start = words.index("vse") + 1
    assert words[start : start + len(name.split())] == name.split()
    # without what follows in the shell, and without asking whether files are there
    rest = " ".join(map(shlex.quote, words[start + len(name.split()) :])).split(" '|' ")[0]
    command = vse
    for word in name.split():
        command = command.get_command(click.Context(command), word)
    context = click.Context(command, info_name=name)
    options, left, _ = command.make_parser(context).parse_args(shlex.split(rest))
    assert not left
    assert all(options.get(param.name) is not None for param in command.params if param.required)


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["serach"], "No such command 'serach'. Did you mean 'search'?"),
        (["export_model"], "No such command 'export_model'. Did you mean 'export model'?"),
        (["export", "modle"], "No such command 'modle'. Did you mean 'model'?"),
        (["search", "--tpo"], "Did you mean"),
    ],
)
def test_a_wrong_word_gets_the_nearest_one(words, near):
    done = run_command(vse, *words)
    assert done.returncode == 2
    assert near in done.stderr
    assert done.stderr.startswith("Usage: vse ")


def test_a_command_runs_in_a_process_by_its_name():
    command = [sys.executable, "-m", "vse_workbench", "inspect", "gone.h5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "error: gone.h5: no such file")


def test_the_old_name_says_the_new_one_and_works(tmp_path):
    script = "import sys; sys.argv = ['workbench', '--version']\n"
    script += "from vse_workbench.__main__ import workbench; workbench()"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr == "workbench is called vse now\n"
    assert done.stdout.startswith("vse, version")


@pytest.mark.parametrize(("there", "missing"), [([], "click"), (["click"], "torch")])
def test_outside_the_environment_one_line_says_how_to_enter_it(tmp_path, there, missing):
    """-S leaves out site-packages, and with them every library."""
    for name in there:
        (tmp_path / name).symlink_to(Path(sys.modules[name].__file__).parent)
    done = subprocess.run(
        [sys.executable, "-S", "-m", "vse_workbench", "search", "x"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {missing} is not installed for this Python")
    assert "source .venv/bin/activate" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for words in ([], ["search"]):
        assert run_command(vse, *words, "--version").stdout.split()[-1] == version


def test_a_shell_completes_names_and_options():
    shell = BashComplete(vse, {}, "vse", "_VSE_COMPLETE")
    assert [item.value for item in shell.get_completions([], "se")] == ["search", "serve"]
    assert [item.value for item in shell.get_completions(["export"], "m")] == ["model"]
    found = [item.value for item in shell.get_completions(["compare"], "--c")]
    assert found == ["--criterion", "--criterion-b"]
    assert shell.get_completions(["no-such"], "--c") == []
    assert "complete" in shell.source()
