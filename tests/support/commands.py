"""A stage's command run in this process: a process of its own takes seconds to import torch."""

import signal
import subprocess
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pipeline.runtime.errors import WorkbenchError


@dataclass(frozen=True)
class Done:
    """What a finished command left behind, as subprocess says it."""

    returncode: int
    stdout: str
    stderr: str


def run_command(
    command: click.Command, *arguments: object, folder: Path | str = ".", stdin: str | None = None
) -> Done:
    """Run a command in a folder. Exceptions that a user would see as a traceback are raised."""
    with chdir(folder):
        result = CliRunner().invoke(command, [str(argument) for argument in arguments], input=stdin)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def succeed(command: click.Command, folder: Path, *arguments: object) -> str:
    """Standard error of a run that must succeed."""
    done = run_command(command, *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stderr


def fail(command: click.Command, folder: Path, *arguments: object) -> str:
    """Standard error of a run that must end with a plain message."""
    done = run_command(command, *arguments, folder=folder)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("error: ") or "\nerror: " in done.stderr
    return done.stderr


def invoke(command: click.Command, folder: Path, *arguments: object) -> tuple[int, str]:
    """Exit code and standard error of a run that may succeed or fail."""
    done = run_command(command, *arguments, folder=folder)
    return done.returncode, done.stderr


def refusal(call: Callable[..., object], *arguments: object, **named: object) -> str:
    """The message of what must end with a plain error, and the hint in the next line."""
    with pytest.raises(WorkbenchError) as caught:
        call(*arguments, **named)
    return str(caught.value)


def git(*words: object, folder: Path | str = ".") -> str:
    """Standard output of git, as a committer without a configuration."""
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *map(str, words)]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def heed_ctrl_c() -> None:
    """A job in the background, `nohup` and many CI runners ignore SIGINT, and so would a child,
    since Python leaves a signal alone that was ignored when it began."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
