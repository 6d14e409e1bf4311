"""Pack what claims lack, for a machine without DVC."""

from pathlib import Path

import click

from pipeline.runtime.errors import counted
from pipeline.runtime.lock import measuring_lock
from pipeline.runtime.process import say
from stages.common import command
from vse_workbench.claims.packing import pack
from vse_workbench.claims.queue import Planner, cost_text, lacking_jobs, with_data_present
from vse_workbench.claims.results import read_claims
from vse_workbench.claims.runs import Folder, committed_head

GROUP = "compare"


@command
@click.argument("names", metavar="[CLAIM]...", nargs=-1)
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), required=True)
def main(names: tuple[str, ...], output: Path) -> None:
    """Run the stages that come before the models', and write the rest with its inputs to a folder.

    In a copy of the repository on another machine `vse claims work` does what is left.

    Example: vse claims pack knn_sum --output data/.work/away
    """
    ledger, kept, named = read_claims(names)
    with measuring_lock():
        plans = with_data_present(Planner(ledger).plans(named))
        jobs = lacking_jobs(ledger, plans, kept.rows)
        lacking = [plan for plan in plans if any(job.plan is plan for job in jobs)]
        pack(ledger, lacking, kept.rows, output, Folder(1, committed_head()))
    lack = f"{counted(len(jobs), 'run')} of {counted(len(lacking), 'setting')}"
    say(f"{output}: {lack}: {cost_text(jobs)}")
