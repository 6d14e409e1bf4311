"""When a command of a sequence is killed. Read by programs that load nothing of this repository."""

import signal
from typing import NamedTuple

KILL = "SEQUENCE_KILL"  # of the environment: a Kill as a JSON list
WHERE = signal.SIGUSR1  # at which a command prints where it is


class Kill(NamedTuple):
    """Before, or in the middle of, a call that changes files.

    module: of the stage whose calls count, or `dvc`; call: its number, from 1; is_torn: a write has
    written half; of_group: DVC and the stage die together.
    """

    module: str
    call: int
    is_torn: bool
    of_group: bool
