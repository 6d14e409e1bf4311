"""Work through what `vse claims pack` has packed."""

import math
from pathlib import Path

import click

from stages.common import WORK, command, to_folder
from vse_workbench.claims.away import Away, work

GROUP = "compare"


@command
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--processes", type=click.IntRange(1, 64), default=1, help="Runs at a time.")
@click.option("--seconds", type=click.FloatRange(0), default=math.inf, help="For so long.")
@click.option("--runs", type=to_folder, default=WORK / "away", help="Where processes work.")
def main(folder: Path, processes: int, seconds: float, runs: Path) -> None:
    """Run what FOLDER lacks, without DVC and without the data. A GPU is used if there is one.

    It may be stopped or killed at any time: the same command goes on, with the runs that had not
    ended from their beginning.

    Example: vse claims work data/.work/away --processes 16
    """
    work(Away(folder, runs), processes, seconds)
