"""`dvc repro` in a process of its own, which ends with the process that started it."""

import os
import sys
from pathlib import Path

# Runs a command and ends with all that it started when this process, which holds its input, ends.
# An interruption is for the command: the guard waits for what it says.
GUARD = """
import os, signal, subprocess, sys, threading
def watch():
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
signal.signal(signal.SIGINT, lambda *_: None)
sys.exit(subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL))
"""


def guarded(*command: str) -> list[str]:
    """A command that is killed, with all that it started, when its standard input ends.

    Args:
        *command: program and arguments.

    Returns:
        What to start in a session of its own, with a pipe as standard input.
    """
    return [sys.executable, "-c", GUARD, *command]


def own_path() -> str:
    """PATH for the commands of dvc.yaml, which call `python`: with this Python first, where it is
    not on PATH because its environment is not active."""
    own = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", "")
    return path if own in path.split(os.pathsep) else os.pathsep.join([own, path])
