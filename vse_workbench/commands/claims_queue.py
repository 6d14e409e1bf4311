"""Print what claims lack."""

from pathlib import Path

import click

from pipeline.comparison.table import aligned
from pipeline.runtime.errors import counted
from stages.common import command
from vse_workbench.claims.ledger import chosen, read_ledger
from vse_workbench.claims.queue import Planner, cost, queue, there, wanted
from vse_workbench.claims.results import check_rows, read_kept

GROUP = "compare"


@command
@click.argument("names", metavar="[CLAIM]...", nargs=-1)
@click.option("--claims", type=click.Path(path_type=Path), default=Path("claims.yaml"))
@click.option("--kept", type=click.Path(path_type=Path), default=Path("docs/claims.tsv"))
@click.option("--recipes", type=click.Path(path_type=Path), default=Path("recipes"))
def main(names: tuple[str, ...], claims: Path, kept: Path, recipes: Path) -> None:
    """The runs that the CLAIMs, or all, lack under today's code, in their order, with their cost.

    Example: vse claims queue knn_sum
    """
    ledger, found = read_ledger(claims), read_kept(kept)
    named = chosen(ledger, names)
    check_rows(ledger, found.rows)
    planner = Planner(ledger, recipes)
    plans = there(planner.plan(*pair) for pair in wanted(ledger, named))
    jobs = queue(ledger, plans, found.rows)
    lines = [[job.name, "unknown" if job.minutes is None else f"{job.minutes:.1f}"] for job in jobs]
    click.echo("\n".join(aligned([["run", "minutes"], *lines])))
    click.echo(f"{counted(len(jobs), 'run')}: {cost(jobs)}")
