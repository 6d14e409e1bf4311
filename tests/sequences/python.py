"""The `python` of a sequence's clone: warm, of one group with the command that started it, and
killed at a call where the sequence says so. It runs DVC, too, which takes longer to load than to
work here."""

import faulthandler
import importlib
import json
import os
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/support")]

import warm_python  # noqa: E402

from tests.campaign.calls import arm  # noqa: E402
from tests.sequences.kills import KILL, WHERE, Kill  # noqa: E402

del sys.path[:2]  # a stage finds the code of its clone, and no other
sys.dont_write_bytecode = False  # half of a tiny stage's time would go to compiling

DVC = "dvc"
# What its commands load when they begin.
LOADED = ("dvc.cli.parser", "dvc.repo", "dvc.repo.reproduce", "dvc.repo.experiments.run")
LOADED += ("dvc.repo.status", "dvc.stage.cache", "dvc_data.hashfile.build", "dvc.repo.checkout")
LOADED += ("dvc.repo.gc", "dvc.repo.experiments.executor.local")


def run(arguments: list[str], folder: str, environment: dict[str, str], files: list[int]) -> int:
    """The exit code of `python -m <module> ...`, as `warm_python.run`, unless it is killed."""
    with suppress(PermissionError):  # of a queue's worker, which is in a session of its own
        os.setpgid(0, int(environment[warm_python.GROUP]))
    os.dup2(files[2], 2)
    faulthandler.register(WHERE, file=2)
    module = arguments[1]
    # DVC hands it on to the stages that it starts
    wanted = environment.get(KILL, "") if module == DVC else environment.pop(KILL, "")
    kill = Kill(*json.loads(wanted)) if wanted else None
    if kill and module == kill.module:
        arm(Path(folder), kill.call, is_torn=kill.is_torn, of_group=kill.of_group)
    return warm_python.run(arguments, folder, environment, files)


if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    warm_python.serve(sys.argv[1], run)
