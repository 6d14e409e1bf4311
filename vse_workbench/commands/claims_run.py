"""Run what claims lack, and keep the figures."""

from pathlib import Path

import click

from pipeline.runtime.errors import counted
from pipeline.runtime.lock import measuring
from pipeline.runtime.process import say
from stages.common import command
from vse_workbench.claims.ledger import chosen, read_ledger
from vse_workbench.claims.queue import Planner, cost, there, wanted
from vse_workbench.claims.results import State, check_rows, read_kept, states_of, write_states
from vse_workbench.claims.runs import Runs, head, run_all

GROUP = "compare"


@command
@click.argument("names", metavar="[CLAIM]...", nargs=-1)
@click.option("--processes", type=click.IntRange(1, 64), default=1, help="Runs at a time.")
@click.option("--claims", type=click.Path(path_type=Path), default=Path("claims.yaml"))
@click.option("--kept", type=click.Path(path_type=Path), default=Path("docs/claims.tsv"))
@click.option("--recipes", type=click.Path(path_type=Path), default=Path("recipes"))
def main(names: tuple[str, ...], processes: int, claims: Path, kept: Path, recipes: Path) -> None:
    """Run what `vse claims queue` prints, on one thread each, and keep it in docs/claims.tsv.

    It may be stopped or killed at any time: the same command goes on. A run that fails is printed,
    and the others go on.

    Example: vse claims run --processes 2 knn_sum
    """
    ledger = read_ledger(claims)
    named, found = chosen(ledger, names), read_kept(kept)
    check_rows(ledger, found.rows)
    with measuring():
        commit, planner = head(), Planner(ledger, recipes)
        keys = frozenset(planner.plan(*pair).key for pair in wanted(ledger, ledger.claims))
        if not found.states or found.states[-1].keys != keys:
            write_states(states_of(kept), [*found.states, State(commit, keys)])
        plans = there(planner.plan(*pair) for pair in wanted(ledger, named))
        runs = Runs(claims, planner, plans, found)
        say(f"{counted(runs.total, 'run')}: {cost(runs.lacking())}")
        run_all(runs, processes, commit)
    say(f"{kept}: {counted(len(runs.rows), 'run')}")
