"""Several processes of one training on this machine, started and watched by torchrun's engine."""

import logging
import os
import signal
import sys
import uuid
from collections.abc import Sequence
from typing import Any

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import LAUNCHER, is_launched, process_count

WATCH = 0.1  # seconds between two looks at whether one has died


def relaunched_with_torchrun(stage: str, model: str, config: Any, wanted: int) -> bool:
    """Run this command in several processes, unless it is one of them already or needs only one.

    Args:
        stage: the module of `stages` that is run again, with this command's arguments.
        model: the model's name, which is its section of params.yaml.
        config: the section; one without `training` is fitted at once, by one process.
        wanted: runtime.processes: how many there shall be.

    Returns:
        True after they have done the whole work; False where this process has to do it, alone or
        as one of them.

    Raises:
        WorkbenchError: several processes for a model that needs one, more than the batch has rows,
            or one of them was ended by a signal.
        SystemExit: one of them failed and said why; with its exit code.
    """
    training = getattr(config, "training", None)
    if training is None:
        if process_count() > 1:
            raise WorkbenchError(
                f"{model} is fitted at once, by one process",
                f"start it without torchrun: python -m stages.{stage} {model} ...",
            )
        return False
    processes = process_count() if is_launched() else wanted
    if processes > training.batch_size:
        raise WorkbenchError(
            f"{processes} processes for {model}.training.batch_size = {training.batch_size}: each "
            "needs a row of the batch",
            f"allowed are 1 to {training.batch_size}; lower runtime.processes",
        )
    if is_launched() or wanted == 1:
        return False
    code = _run(f"stages.{stage}", sys.argv[1:], wanted)
    if code:
        sys.exit(code)
    return True


def _run(module: str, arguments: Sequence[str], processes: int) -> int:
    """Run a module in several processes; the exit code of the first that failed, or 0."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)  # what failed is told below
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=WATCH,
        logs_specs=DefaultLogsSpecs(),
    )
    os.environ[LAUNCHER] = str(os.getpid())
    try:
        elastic_launch(config, sys.executable)("-m", module, *arguments)
    except ChildFailedError as error:
        # the others fail for the one that was killed, or are told to stop
        stop_code = -signal.SIGTERM
        killed = [(n, f) for n, f in error.failures.items() if stop_code != f.exitcode < 0]
        number, failure = killed[0] if killed else error.get_first_failure()
        if failure.exitcode >= 0:
            return int(failure.exitcode)
        name = signal.Signals(-failure.exitcode).name
        raise WorkbenchError(
            f"process {number} of {processes} was ended by {name}, the others were stopped",
            "run the same command to continue; killed for memory, lower runtime.processes",
        ) from None
    except SignalException:
        raise KeyboardInterrupt from None
    finally:
        del os.environ[LAUNCHER]
    return 0
