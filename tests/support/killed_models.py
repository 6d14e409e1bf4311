"""Trains models by `stages.train` in child processes that are killed, and again to the end.

Run by tests/stages/test_killed_trainings.py as `python killed_models.py FOLDER`;
FOLDER/<case>/killed and FOLDER/<case>/never hold the inputs. What the last run in a folder
printed is in its file log.
"""

import os
import sys
from pathlib import Path

from dual_path_runs import RUN as DUAL_PATH
from fine_tuning_runs import RUN as FINE_TUNED
from forked import Killer, ended, killed
from model_runs import DP_RNN, SCAN, TWO_BRANCH, VSE

from stages.train import main as train_stage

# The run, and the epoch that is the last one written: the second of the one phase that trains what
# no other does, or the first after the warm-up.
CASES = {"dp_rnn": (DP_RNN, 2), "dual_path": (DUAL_PATH, 3), "scan": (SCAN, 2)}
CASES |= {"fine_tuned": (FINE_TUNED, 3), "two_branch": (TWO_BRANCH, 2), "vse": (VSE, 2)}


def train(folder: Path, command: list[str], killer: Killer) -> None:
    """Train in a folder; every epoch's state is made safe by an event "publish"."""
    os.chdir(folder)
    killer.watch_files()
    train_stage(command, standalone_mode=False)


def main() -> None:
    for name, (run, epoch) in CASES.items():
        folder, command = Path(sys.argv[1]) / name, run.training_command()
        killed(f"publish {epoch + 1}", train, folder / "killed", command)
        assert not (folder / "killed/out").exists()
        for kind in ("killed", "never"):
            (folder / kind / "log").write_text(ended(train, folder / kind, command))


if __name__ == "__main__":
    main()
