"""Run what claims lack, and keep the figures."""

import click

from pipeline.runtime.errors import counted
from pipeline.runtime.lock import measuring_lock
from pipeline.runtime.process import say
from stages.common import command
from vse_workbench.claims.queue import (
    Planner,
    carrying_jobs,
    cost_text,
    lacking_jobs,
    with_data_present,
)
from vse_workbench.claims.results import note_state, read_claims
from vse_workbench.claims.runs import Runs, committed_head, run_all

GROUP = "compare"


@command
@click.argument("names", metavar="[CLAIM]...", nargs=-1)
@click.option("--processes", type=click.IntRange(1, 64), default=1, help="Runs at a time.")
@click.option("--carry", is_flag=True, help="Only runs that carry older rows to today's code.")
def main(names: tuple[str, ...], processes: int, carry: bool) -> None:
    """Run what `vse claims queue` prints, on one thread each, and keep it in docs/claims.tsv.

    It may be stopped or killed at any time: the same command goes on. A run that fails is printed,
    and the others go on.

    Example: vse claims run --processes 2 knn_sum
    """
    ledger, kept, named = read_claims(names)
    with measuring_lock():
        commit = committed_head()
        planner = Planner(ledger)
        note_state(kept, commit, (plan.key for plan in planner.plans(ledger.claims)))
        plans = with_data_present(planner.plans(named))
        runs = Runs(planner, plans, kept, carrying_jobs if carry else lacking_jobs)
        say(f"{counted(runs.total, 'run')}: {cost_text(runs.lacking())}")
        run_all(runs, processes, commit)
    say(f"{kept.path}: {counted(len(kept.rows), 'run')}")
