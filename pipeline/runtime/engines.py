"""Commands run beside each other, as processes of this machine or as tasks of a Ray cluster. Their
standard input stays open while the one that started them lives, so that they can end with it
(`pipeline.runtime.process.end_with_input`), even with a killed one."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from types import ModuleType

from pipeline.runtime.code import ROOT
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.repeatable import pick_device
from pipeline.runtime.section import RuntimeConfig

AGAIN = "run the same command to continue: what is finished is kept"
SHOWN = 4_000  # characters of what a failed process said
RETRIES = 3  # of a task whose process of Ray died
STORE = 80 << 20  # bytes of Ray's store of objects, the smallest there is: tasks return lines

Commands = Mapping[str, Sequence[str]]  # by a name for messages


@dataclass(frozen=True)
class Engine:
    """What runs commands, `runtime.extraction.workers` at a time."""

    runtime: RuntimeConfig
    on_device: bool = True  # commands compute on `runtime.device`; for Ray: a GPU each

    @property
    def workers(self) -> int:
        return self.runtime.extraction.workers

    def run(self, commands: Commands) -> Iterator[str]:
        """Run commands and name each as it ends. The first that fails ends the others."""
        if not commands:
            return iter(())
        if self.runtime.extraction.engine == "local":
            return _run_locally(commands, self.workers)
        gpu = self.on_device and pick_device(self.runtime.device).type == "cuda"
        return _run_on_ray(commands, self.workers, self.runtime.threads, gpu)


class Running:
    """A process that was started, and what it says on standard error.

    Args:
        command: program and arguments.
        folder: working directory of the process.
        environment: variables that are added to this process's.
    """

    def __init__(self, command: Sequence[str], folder: str, environment: Mapping[str, str]) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `ended`
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,  # never written to: it closes when this process ends
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
        )

    def ended(self) -> tuple[int, str]:
        """Wait for its end: exit status, negative for a signal, and the end of what it said."""
        status = self.process.wait()
        with self.errors as errors:
            errors.seek(0)
            text = errors.read().decode(errors="replace")
        if self.process.stdin:
            self.process.stdin.close()
        return status, text[-SHOWN:]


def _run_locally(commands: Commands, workers: int) -> Iterator[str]:
    waiting = list(commands.items())[::-1]
    running: dict[Future[tuple[int, str]], tuple[str, Running]] = {}
    with ThreadPoolExecutor(workers) as pool:  # of threads that wait for a process each
        try:
            while waiting or running:
                while waiting and len(running) < workers:
                    name, command = waiting.pop()
                    started = Running(command, os.getcwd(), _environment())
                    running[pool.submit(started.ended)] = name, started
                done = next(iter(wait(running, return_when=FIRST_COMPLETED).done))
                name, _ = running.pop(done)
                _check_outcome(name, *done.result())
                yield name
        finally:
            for _, left in running.values():
                left.process.kill()


def _run_task(
    command: Sequence[str], folder: str, environment: Mapping[str, str]
) -> tuple[int, str]:
    return Running(command, folder, environment).ended()


def _run_on_ray(commands: Commands, workers: int, threads: int, gpu: bool) -> Iterator[str]:
    ray = _import_ray()
    address = os.environ.get("RAY_ADDRESS", "local")  # "local": a cluster that ends with this run
    node = {"num_cpus": workers * threads, "object_store_memory": STORE, "include_dashboard": False}
    try:
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        ray.init(address, **quiet, **(node if address == "local" else {}))
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _refused(f"RAY_ADDRESS = {address}", error) from error
    # The machines of a cluster need the code for the commands alone, not to unpack the task.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    needs = {"num_cpus": threads, "num_gpus": int(gpu), "max_retries": RETRIES}
    task = ray.remote(**needs)(_run_task)
    waiting = list(commands.items())[::-1]
    running: dict[Hashable, str] = {}  # by what Ray will put the outcome into
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                name, command = waiting.pop()
                running[task.remote(list(command), os.getcwd(), _environment())] = name
            (done, *_), _ = ray.wait(list(running))
            name = running.pop(done)
            try:
                status, text = ray.get(done)
            except ray.exceptions.RayError as error:
                raise _refused(name, error) from error
            _check_outcome(name, status, text)
            yield name
    finally:
        ray.shutdown()


def _import_ray() -> ModuleType:
    # Before it is loaded: it would tell its makers about this run.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise WorkbenchError(
            "runtime.extraction.engine = ray: the package ray is not installed",
            "install it with: pip install --editable '.[ray]', or set the engine to local",
        ) from None
    return ray


def _refused(name: str, error: Exception) -> WorkbenchError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return WorkbenchError(f"{name}: Ray: {' '.join(lines[:2]) or type(error).__name__}", AGAIN)


def _environment() -> dict[str, str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _check_outcome(name: str, status: int, errors: str) -> None:
    if status < 0:
        raise WorkbenchError(
            f"{name}: its process was ended by {signal.Signals(-status).name}",
            f"{AGAIN}; if memory was short, lower runtime.extraction.workers",
        )
    _, mark, text = f"\n{errors}".rpartition("\nerror: ")
    if status and mark:
        message, _, hint = text.strip().partition("\n")
        raise WorkbenchError(f"{name}: {message}", hint)
    if status:
        raise RuntimeError(f"{name}: exit status {status}\n{errors}")
