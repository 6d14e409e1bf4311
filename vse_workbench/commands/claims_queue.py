"""Print what claims lack."""

import click

from pipeline.evaluation.comparison import aligned
from pipeline.runtime.errors import counted
from stages.common import command
from vse_workbench.claims.carrying import equal_codes, find_reruns
from vse_workbench.claims.queue import (
    Planner,
    carrying_jobs,
    cost_text,
    lacking_jobs,
    with_data_present,
)
from vse_workbench.claims.results import read_claims

GROUP = "compare"


@command
@click.argument("names", metavar="[CLAIM]...", nargs=-1)
@click.option("--carry", is_flag=True, help="Only runs that carry older rows to today's code.")
def main(names: tuple[str, ...], carry: bool) -> None:
    """The runs that the CLAIMs, or all, lack under today's code, in their order, with their cost.

    Runs with the same rank of every query as under older code carry its rows to today's.

    Example: vse claims queue knn_sum
    """
    ledger, kept, named = read_claims(names)
    plans = with_data_present(Planner(ledger).plans(named))
    codes = equal_codes(find_reruns(kept))
    jobs = (carrying_jobs if carry else lacking_jobs)(ledger, plans, kept.rows, codes)
    lines = [[job.name, "unknown" if job.minutes is None else f"{job.minutes:.1f}"] for job in jobs]
    click.echo("\n".join(aligned([["run", "minutes"], *lines])))
    click.echo(f"{counted(len(jobs), 'run')}: {cost_text(jobs)}")
