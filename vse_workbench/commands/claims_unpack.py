"""Keep the runs that a packed folder comes back with."""

from pathlib import Path

import click

from pipeline.runtime.errors import counted
from pipeline.runtime.lock import measuring_lock
from pipeline.runtime.process import say
from stages.common import command
from vse_workbench.claims.away import read_queue
from vse_workbench.claims.packing import unpack
from vse_workbench.claims.queue import Planner
from vse_workbench.claims.results import note_state, read_claims

GROUP = "compare"


@command
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Keep the figures and ranks of the runs that ended in FOLDER, as `vse claims pack` wrote it.

    Example: vse claims unpack data/.work/away
    """
    ledger, kept, named = read_claims(())
    with measuring_lock():
        plans = Planner(ledger).plans(named)
        new = unpack(folder, kept, plans)
        note_state(kept, read_queue(folder).commit, (plan.key for plan in plans))
    say(f"{kept.path}: {counted(len(new), 'new run')}")
