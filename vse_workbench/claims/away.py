"""Runs of claims on another machine, which has neither DVC nor the data: one with a GPU, say.

`vse claims pack` writes a folder with all that the runs need, `vse claims work` works through it
there, in a copy of the repository, and `vse claims unpack` keeps the runs that the folder comes
back with. Each run is a process of its own that begins with all modules loaded; it makes the stages
behind the shared ones by their commands in dvc.yaml.
"""

import os
import shlex
import shutil
import signal
import time
import traceback
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from pydantic import TypeAdapter

from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.files import write_json
from pipeline.runtime.process import say
from stages.params import default_values
from vse_workbench.claims.keeping import COLLAPSE
from vse_workbench.claims.ledger import AS_IT_IS, Ledger, read_ledger, setting_params
from vse_workbench.claims.queue import ALONE, RECIPES, Job, Plan, lacking_jobs
from vse_workbench.claims.results import Row, read_rows
from vse_workbench.claims.runs import last_lines

LEDGER = "claims.yaml"
ROWS = "claims.tsv"
QUEUE = "queue.json"
INPUTS = "inputs"
DONE = "runs"
ABOUT = "run.json"


@dataclass(frozen=True)
class Step:
    """A stage of a run, and those of the files it writes that a row is made from, or its ranks."""

    command: str
    kept: tuple[str, ...]
    ranks: tuple[str, ...]  # of runs with the seeds of a verdict


@dataclass(frozen=True)
class Packed:
    """A plan as a folder has it. `inputs`: the files that its steps read, by seed and path."""

    plan: Plan
    inputs: dict[int, dict[str, str]]  # the names of the copies, which are of their content
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Queue:
    """All that is to be run, and the commit that it starts from."""

    commit: str
    packed: tuple[Packed, ...]


@dataclass(frozen=True)
class Done:
    """What is known of a run that has ended, beside the files it kept."""

    row: Row  # with what a search reads
    has_collapsed: bool


def write_queue(folder: Path, queue: Queue) -> None:
    """Write what `read_queue` reads.

    Args:
        folder: into which the file is written.
        queue: its content.
    """
    write_json(folder / QUEUE, TypeAdapter(Queue).dump_python(queue, mode="json"))


def read_queue(folder: Path) -> Queue:
    """The queue of a folder that `vse claims pack` has written."""
    return TypeAdapter(Queue).validate_json((folder / QUEUE).read_bytes())


def runs_done(folder: Path) -> dict[Path, Done]:
    """The runs that have ended in a folder, by the folders that hold their files, sorted."""
    found = sorted((folder / DONE).glob(f"*/{ABOUT}"))
    return {path.parent: TypeAdapter(Done).validate_json(path.read_bytes()) for path in found}


def link_to(file: Path, target: Path) -> None:
    """Make a link, and the folders above it.

    Args:
        file: to which it leads.
        target: where it is made; nothing is there yet.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(file.resolve())


class Away:
    """The work on a folder.

    Args:
        folder: that `vse claims pack` has written.
        runs: where the processes work; what they leave there is worthless when they have ended.
    """

    def __init__(self, folder: Path, runs: Path) -> None:
        self.folder = folder.resolve()
        self.runs = runs.resolve()
        self.ledger: Ledger = read_ledger(folder / LEDGER)
        self.defaults = default_values()
        self.packed = {one.plan.place: one for one in read_queue(folder).packed}
        self.plans = [one.plan for one in self.packed.values()]
        self.rows = read_rows(folder / ROWS)
        self.rows += [done.row for done in runs_done(folder).values()]
        self.failed: set[str] = set()

    def ready(self, running: Sequence[Job]) -> list[Job]:
        """What can begin now, in its order; searches and seeds of a plan that was packed earlier
        before those of a later one."""
        names = {job.name for job in running} | self.failed
        jobs = lacking_jobs(self.ledger, self.plans, self.rows)
        order = {plan.place: number for number, plan in enumerate(self.plans)}
        jobs.sort(key=lambda job: order[job.plan.place])
        return [job for job in jobs if job.point is not None and job.name not in names]

    def begin(self, job: Job) -> int:
        """Begin a run in a process of its own.

        Args:
            job: the run, whose point the search has chosen.

        Returns:
            The number of the process.
        """
        place = self.runs / _slug(job)
        shutil.rmtree(place, ignore_errors=True)
        packed = self.packed[job.plan.place]
        for path, content in packed.inputs[job.seed].items():
            link_to(self.folder / INPUTS / content, place / path)
        self._write_params(place, job)
        with warnings.catch_warnings():
            # "may lead to deadlocks in the child": the other threads are idle pools of libraries
            warnings.simplefilter("ignore", DeprecationWarning)
            number = os.fork()
        if number == 0:
            _run_in_child(place, [step.command for step in packed.steps])
        return number

    def _write_params(self, place: Path, job: Job) -> None:
        params = setting_params(
            ledger=self.ledger,
            name=job.plan.setting,
            dataset=job.plan.dataset,
            defaults=self.defaults,
            recipes=RECIPES,
            point=job.point or AS_IT_IS,
        )
        runtime = params["runtime"] | ALONE
        evaluation = params["evaluation"] | {"bootstrap": 0}  # claims have intervals of their own
        own = {"seed": job.seed, "runtime": runtime, "evaluation": evaluation}
        write_json(place / "params.yaml", params | own)
        # nothing is read there any more, but a params.yaml that names no folder is refused
        (place / params["raw"]).mkdir(parents=True, exist_ok=True)

    def end(self, job: Job, status: int, minutes: float) -> str:
        """Keep what a run has left.

        Args:
            job: that has ended.
            status: with which its process has.
            minutes: of a processor, that it took.

        Returns:
            What came out, as a line.
        """
        from pipeline.features.checkpoint import (  # torch takes seconds to load
            read_checkpoint,
            write_checkpoint,
        )

        place = self.runs / _slug(job)
        log = (place / "run.log").read_text(encoding="utf-8", errors="replace")
        has_collapsed = status != 0 and COLLAPSE in log
        if status and not has_collapsed:
            self.failed.add(job.name)
            return f"failed\n{last_lines(log)}"
        target = self.folder / DONE / _slug(job)
        shutil.rmtree(target, ignore_errors=True)
        val_rsum = 0.0
        for step in self.packed[job.plan.place].steps:
            for path in () if has_collapsed else _files_of(step, job):
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                if path.endswith(".safetensors"):
                    description = read_checkpoint(place / path).description
                    write_checkpoint(target / path, {}, description)
                    val_rsum = description.val_rsum
                else:
                    shutil.copyfile(place / path, target / path)
        row = job.row(minutes=round(minutes, 2), val_rsum=val_rsum)
        target.mkdir(parents=True, exist_ok=True)
        done = TypeAdapter(Done).dump_python(Done(row, has_collapsed), mode="json")
        write_json(target / ABOUT, done)
        shutil.rmtree(place)
        self.rows.append(row)
        return "collapsed" if has_collapsed else f"validation {val_rsum:.1f}, {minutes:.1f} minutes"


def work(away: Away, processes: int, seconds: float) -> None:
    """Work until nothing is left or the time is over; then what runs is ended.

    Args:
        away: the work.
        processes: how many run at a time.
        seconds: how long.

    Raises:
        WorkbenchError: some have failed; they are named when the others are done.
    """
    for module in {_module(step.command) for one in away.packed.values() for step in one.steps}:
        import_module(module)  # once, for all processes
    running: dict[int, Job] = {}
    try:
        count = _work_until(away, processes, time.monotonic() + seconds, running)
    finally:  # after Ctrl-C, too
        for number in running:
            _stop(number)
    say(f"{counted(count, 'run')}, {len(running)} cut")
    if away.failed:
        raise WorkbenchError(
            f"{counted(len(away.failed), 'run')} failed: {listing(sorted(away.failed))}",
            f"what they said is in {away.runs}; the same command tries them again",
        )


def _work_until(away: Away, processes: int, end: float, running: dict[int, Job]) -> int:
    """Begin and end runs, which are in `running` meanwhile; how many have ended."""
    begun = time.monotonic()
    count = 0
    may_begin = True  # looking what is lacking takes time
    while time.monotonic() < end:
        if may_begin:
            for job in away.ready([*running.values()])[: processes - len(running)]:
                running[away.begin(job)] = job
        if not running:
            break
        number, status, used = os.wait4(-1, os.WNOHANG)
        may_begin = number != 0
        if not number:
            time.sleep(0.05)
            continue
        job = running.pop(number)
        minutes = (used.ru_utime + used.ru_stime) / 60
        outcome = away.end(job, os.waitstatus_to_exitcode(status), minutes)
        count += 1
        say(f"{time.monotonic() - begun:.0f} s, {count}: {job.name}: {outcome}")
    return count


def _stop(number: int) -> None:
    """Kill a run with what it has started, also where it has no group of its own yet."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(number, signal.SIGKILL)
    os.waitpid(number, 0)


def _run_in_child(place: Path, commands: Sequence[str]) -> NoReturn:
    """Run commands in this process, which ends with the exit code of the first that fails. What
    its parent had not written yet stays with it."""
    status = 1
    try:
        os.setsid()  # what it starts is ended with it
        with (
            open(place / "run.log", "w", buffering=1, encoding="utf-8") as log,
            redirect_stdout(log),
            redirect_stderr(log),
        ):
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            os.chdir(place)
            status = _exit_code(commands)
    finally:
        os._exit(status)


def _exit_code(commands: Sequence[str]) -> int:
    try:
        for line in commands:
            _run_stage(line)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException:  # nobody is behind this process who would print it
        traceback.print_exc()
        return 1
    return 0


def _module(line: str) -> str:
    """Which module a command of dvc.yaml runs."""
    python, dash, module, *_ = shlex.split(line)
    if (python, dash) != ("python", "-m"):
        raise WorkbenchError(f"{line}: only `python -m` runs here")
    return module


def _run_stage(line: str) -> None:
    """Run a command of dvc.yaml in this process."""
    module = _module(line)
    stage = import_module(module).main
    stage.main(args=shlex.split(line)[3:], prog_name=module, standalone_mode=False)


def _files_of(step: Step, job: Job) -> tuple[str, ...]:
    return step.kept if job.is_of_search else (*step.kept, *step.ranks)


def _slug(job: Job) -> str:
    assert job.point is not None
    point = f"{job.point.factor:g}.{job.point.regularisation}"
    return f"{job.plan.setting}.{job.plan.dataset}.{job.seed}.{point}"
