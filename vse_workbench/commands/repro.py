"""Do what `dvc repro` does, with several stages at a time."""

from functools import partial

import click

from pipeline.runtime.process import name_user
from stages.common import command
from vse_workbench.lanes import FIRST, Processes, lock_of_runs, run_dvc, run_lanes, stages_to_run

GROUP = "run"


@command
@click.argument("targets", metavar="[STAGE]...", nargs=-1)
@click.option("--lanes", type=click.IntRange(1, 64), default=2, help="Stages at a time.")
def main(targets: tuple[str, ...], lanes: int) -> None:
    """Bring stages and all that they need up to date, or everything, with several at a time.

    The results are those of `dvc repro`, byte for byte, and DVC runs every stage. Those that need
    nothing of each other run side by side, which is quicker wherever one alone leaves processors
    idle; each lane takes the memory of a stage. Stop it with Ctrl-C: the same command, or
    `dvc repro`, goes on.

    Example: vse repro evaluate@vse --lanes 2
    """
    name_user()
    processes = Processes()
    run = partial(
        run_lanes,
        run=processes.run,
        interrupt=processes.interrupt,
        each_second=processes.share_processors,
    )
    with lock_of_runs():
        run({FIRST: set()}, lanes=1)
        run(stages_to_run(targets), lanes=lanes)
        run_dvc("repro", *targets)
