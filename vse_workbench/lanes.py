"""`dvc repro` with stages that need nothing of each other side by side.

DVC runs one stage after the other, and most stages keep little more than one processor busy. Its
locks allow more: a running stage locks the files that it reads and writes, and the repository only
while DVC itself looks and stores. So several `dvc repro --single-item` run at the same time, each
with stages whose inputs are ready.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from pipeline.runtime.errors import WorkbenchError, first_line
from pipeline.runtime.lock import hold_lock
from pipeline.runtime.process import say
from pipeline.runtime.threads import OF_RUN
from vse_workbench.guard import guarded, own_path

FIRST = "check_params"  # says which code every stage depends on
# How lines begin that each of DVC's commands says at its end, whatever it did.
CLOSING = (
    "Updating lock file",
    "To track the changes with git",
    "\tgit add",
    "To enable auto staging",
    "\tdvc config core.autostage",
    "Use `dvc push`",
    "Data and pipelines are up to date",
)
BEGINS = re.compile(r"Running stage '(.+)':")
Needs = dict[str, set[str]]  # of each stage the stages whose outputs it reads


class Failed(WorkbenchError):
    """A stage failed, and has said why."""

    def __init__(self, stage: str) -> None:
        super().__init__(
            f"stage {stage} failed, as said above; what was complete is kept",
            f"mend it, then run the same command, or `dvc repro {stage}`",
        )


def lock_of_runs() -> AbstractContextManager[None]:
    """A lock on the repository: DVC refuses the stages of a second run with a line for each file.

    Returns:
        The lock, taken when it is entered.

    Raises:
        WorkbenchError: here is no repository of DVC; when it is entered, that another run has it.
    """
    from dvc.exceptions import NotDvcRepoError
    from dvc.repo import Repo

    try:
        root = Path(Repo.find_root())
    except NotDvcRepoError as error:
        raise WorkbenchError(first_line(error)) from None
    path = root / ".dvc" / "tmp" / "vse_repro.lock"
    return hold_lock(path, "`vse repro`", "would run the same stages")


def stages_to_run(targets: Sequence[str]) -> Needs:
    """The stages that may have to run: those of which something changed, and those behind them.

    Args:
        targets: stages, with all that they need; none for the whole graph.

    Returns:
        Of each the stages that it needs among them, in the order in which `dvc repro` runs them.

    Raises:
        WorkbenchError: DVC does not know a target, or cannot read the graph.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.repo.reproduce import get_active_graph, plan_repro
    from dvc.stage import PipelineStage

    try:
        with Repo() as repo:
            graph = get_active_graph(repo.index.graph)
            wanted = [stage for target in targets for stage in repo.stage.collect(target)]
            changed = set(repo.status(targets=list(targets) or None, with_deps=bool(targets)))
    except DvcException as error:
        raise WorkbenchError(first_line(error)) from None
    to_run: Needs = {}
    for stage in plan_repro(graph, wanted or None):  # as `dvc repro` would run them
        needed = {other.addressing for other in graph.successors(stage)} & to_run.keys()
        if isinstance(stage, PipelineStage) and (stage.addressing in changed or needed):
            to_run[stage.addressing] = needed
    return to_run


def next_chain(needs: Needs, done: Collection[str], begun: Collection[str]) -> list[str]:
    """Stages that one lane can run now, one after the other.

    Args:
        needs: of all stages to run, each behind what it needs.
        done: stages that have run.
        begun: those and the ones that other lanes are running.

    Returns:
        The ready stage that most others wait for, and behind it what becomes ready, as long as
        that is one stage: where several become ready other lanes take some. [] if none is ready.
    """
    ready = _ready(needs, done, begun)
    if not ready:
        return []
    chain = [max(ready, key=lambda name: len(_waiting_for(name, needs)))]  # of equal ones the first
    while True:
        new = set(_ready(needs, {*done, *chain}, {*begun, *chain})) - set(ready)
        if len(new) != 1:
            return chain
        chain += new


def _ready(needs: Needs, done: Collection[str], begun: Collection[str]) -> list[str]:
    return [name for name in needs if name not in begun and needs[name] <= set(done)]


def _waiting_for(name: str, needs: Needs) -> set[str]:
    found = {name}
    for other, needed in needs.items():  # each behind what it needs
        if needed & found:
            found.add(other)
    return found - {name}


def run_lanes(
    needs: Needs,
    lanes: int,
    run: Callable[[list[str]], None],
    interrupt: Callable[[], None] = lambda: None,
    each_second: Callable[[], None] = lambda: None,
) -> None:
    """Run stages, each behind what it needs, several at a time.

    Args:
        needs: of all stages to run, each behind what it needs.
        lanes: how many chains run at a time.
        run: runs a chain; raises if a stage fails.
        interrupt: ends the chains that run; called on Ctrl-C.
        each_second: called every second while chains run, and when one has ended.

    Raises:
        Failed: of the first chain that failed, when the others that had begun have ended.
    """
    done: set[str] = set()
    begun: set[str] = set()
    running: dict[Future[None], list[str]] = {}
    failed: BaseException | None = None
    with ThreadPoolExecutor(lanes) as pool:
        try:
            while True:
                while failed is None and len(running) < lanes:
                    chain = next_chain(needs, done, begun)
                    if not chain:
                        break
                    begun.update(chain)
                    running[pool.submit(run, chain)] = chain
                if not running:
                    break
                ended = wait(running, timeout=1, return_when=FIRST_COMPLETED).done
                each_second()
                for future in ended:
                    done.update(running.pop(future))
                    failed = failed or future.exception()
        except KeyboardInterrupt:  # wherever it comes: the pool waits for what runs
            interrupt()
            raise
    if failed is not None:
        raise failed


class Processes:
    """`dvc repro` of chains, each in a session of its own, so that one signal reaches all of it.

    While several run, each has processors of its own. Otherwise the threads of two stages take
    turns on the same ones and wait for each other: DP-RNN's training took three times as long.
    """

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[str]] = []
        self.interrupted = False  # nothing begins any more
        self.changed = threading.Lock()
        self.processors = sorted(os.sched_getaffinity(0))

    def run(self, chain: list[str]) -> None:
        """Run stages one after the other; what they print is printed behind the stage's name.

        Args:
            chain: stages whose inputs are ready, or made by those before them.

        Raises:
            Failed: a stage failed.
        """
        options = ("--wait-for-lock", "repro", "--single-item", *chain)
        with self.changed:
            if self.interrupted:
                return
            process = subprocess.Popen(
                guarded(sys.executable, "-m", "dvc", *options),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"PATH": own_path(), OF_RUN: str(len(self.processors))},
                text=True,
                errors="replace",
            )
            self.running.append(process)
        with process:
            self.share_processors()
            stage = chain[0]
            assert process.stdout is not None
            for line in process.stdout:
                begins = BEGINS.match(line)
                stage = begins[1] if begins else stage
                if line.strip() and not line.startswith(CLOSING):
                    say(f"{stage}: {line.rstrip()}")
            process.wait()
        with self.changed:
            self.running.remove(process)
        if process.returncode:
            raise Failed(stage)

    def share_processors(self) -> None:
        """Give the chains that run their parts of the processors; what they start keeps to them.

        A process that one is just starting may be missed, and is met the next time.
        """
        with self.changed:
            parts = shares(self.processors, len(self.running))
            for process, part in zip(self.running, parts, strict=True):
                for thread in threads_of(process.pid):
                    with suppress(ProcessLookupError):  # it has ended meanwhile
                        os.sched_setaffinity(thread, part)

    def interrupt(self) -> None:
        """Pass Ctrl-C on to what runs, which then says where it stopped."""
        with self.changed:
            self.interrupted = True
            for process in self.running:
                os.killpg(process.pid, signal.SIGINT)


def shares(processors: Sequence[int], number: int) -> list[list[int]]:
    """Parts of the processors, as equal as they can be, the larger ones first.

    Args:
        processors: their numbers.
        number: of parts.

    Returns:
        The parts; where there are more of them than processors, each is all of these.
    """
    if number > len(processors):
        return [list(processors)] * number
    return [list(processors[part::number]) for part in range(number)]


def threads_of(session: int) -> Iterator[int]:
    """The threads of all processes of a session.

    Args:
        session: the number of its first process.

    Yields:
        Their numbers, as Linux knows them.
    """
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError, FileNotFoundError):  # it has ended meanwhile
            if os.getsid(int(folder.name)) == session:
                yield from (int(thread.name) for thread in (folder / "task").iterdir())


def run_dvc(*words: str) -> None:
    """Run a command of DVC in this terminal; WorkbenchError if it fails, when it has said why."""
    command = [sys.executable, "-m", "dvc", *words]
    done = subprocess.run(command, env=os.environ | {"PATH": own_path()}, check=False)
    if done.returncode:
        raise WorkbenchError(f"`dvc {' '.join(words)}` failed, as said above")
