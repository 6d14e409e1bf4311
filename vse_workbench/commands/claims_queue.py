"""Print what claims lack."""

import click

from pipeline.comparison.table import aligned
from pipeline.runtime.errors import counted
from stages.common import command
from vse_workbench.claims.queue import Planner, cost, queue, there
from vse_workbench.claims.results import read_claims

GROUP = "compare"


@command
@click.argument("names", metavar="[CLAIM]...", nargs=-1)
def main(names: tuple[str, ...]) -> None:
    """The runs that the CLAIMs, or all, lack under today's code, in their order, with their cost.

    Example: vse claims queue knn_sum
    """
    ledger, kept, named = read_claims(names)
    jobs = queue(ledger, there(Planner(ledger).plans(named)), kept.rows)
    lines = [[job.name, "unknown" if job.minutes is None else f"{job.minutes:.1f}"] for job in jobs]
    click.echo("\n".join(aligned([["run", "minutes"], *lines])))
    click.echo(f"{counted(len(jobs), 'run')}: {cost(jobs)}")
