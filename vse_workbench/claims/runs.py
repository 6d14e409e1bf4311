"""Runs of claims' settings, several at a time, each in a git worktree of its own.

Each process has a folder below FOLDERS. The cache of DVC is that of the repository, so that stages
which several runs share are made once. What a kill leaves of a training stays in its folder, where
the next `vse claims run` begins with the same run.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.files import write_json, write_text
from pipeline.runtime.process import name_user, say
from pipeline.runtime.recipes import leaves
from pipeline.runtime.text import Values
from pipeline.runtime.yaml_text import read_yaml
from stages.common import WORK
from vse_workbench.claims.carrying import Codes, equal_codes, find_reruns
from vse_workbench.claims.keeping import COLLAPSE, keep_run
from vse_workbench.claims.ledger import AS_IT_IS, Ledger, read_ledger
from vse_workbench.claims.queue import ALONE, Job, Plan, Planner, cost_text, lacking_jobs
from vse_workbench.claims.results import Kept, Row, write_rows
from vse_workbench.guard import guarded, own_path

FOLDERS = WORK / "claims"
JobLister = Callable[[Ledger, list[Plan], list[Row], Codes], list[Job]]  # queue, or again
SHARED = threading.Lock()  # of the stages that are no item of a model
SOURCES = ("dvc.yaml", "models", "pipeline", "stages")
TAIL = 6  # lines of a failed run that are printed


class Folder:
    """A worktree at a commit, and the run that it holds.

    Args:
        number: of the process, from 1; the worktree lies in FOLDERS under this name.
        commit: that is checked out.
        is_alone: whether no other process runs jobs beside this one.

    Raises:
        WorkbenchError: git cannot make the worktree.
    """

    def __init__(self, number: int, commit: str, is_alone: bool = True) -> None:
        self.is_alone = is_alone
        self.path = (FOLDERS / str(number)).resolve()
        self.commit = commit
        self.note, self.log = (self.path / WORK / name for name in ("run.txt", "run.log"))
        if not (self.path / ".git").is_file():
            options = ("--force", "--force", "--detach")
            run_command("git", "worktree", "add", *options, str(self.path), commit)
        run_command("git", "checkout", "--quiet", "--force", "--detach", commit, folder=self.path)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        name_user()
        cache = sys.executable, "-m", "dvc", "cache", "dir"
        run_command(*cache, "--local", run_command(*cache).strip(), folder=self.path)

    @property
    def begun(self) -> str:
        """The name of the run that was begun last."""
        return self.note.read_text(encoding="utf-8") if self.note.exists() else ""

    def run(self, job: Job, params: Values) -> tuple[int, float]:
        """Run the stages of a job. One process at a time runs those before the training: the others
        then take them from the cache.

        Args:
            job: the run.
            params: content of its params.yaml.

        Returns:
            The exit code of `dvc repro`, and the minutes of processor time.
        """
        write_text(self.note, job.name)
        if self.is_alone:  # one start of DVC, which takes seconds
            self._write(params)
            return self._repro([job.plan.stage])
        code, before = self.make_shared(job.plan, params)
        if code:
            return code, before
        code, training = self._repro([job.plan.stage])
        return code, before + training

    def make_shared(self, plan: Plan, params: Values) -> tuple[int, float]:
        """Run the stages of a setting that come before those of its model.

        Args:
            plan: of the setting.
            params: content of params.yaml.

        Returns:
            As of `run`.
        """
        self._write(params)
        with SHARED:
            return self._repro([stage for stage in plan.stages if "@" not in stage])

    def _write(self, params: Values) -> None:
        """Write params.yaml, and link the data that it names."""
        write_json(self.path / "params.yaml", params)
        for value in {value for _, value in leaves(params) if isinstance(value, str) and value}:
            link = self.path / value
            target = Path(value)
            # data in the repository's folder, but not in git: raw images, a file of word vectors
            if not target.is_absolute() and target.exists() and not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(target.resolve())

    def last_lines(self) -> str:
        """The end of what the last `dvc repro` printed."""
        return last_lines(self.log.read_text(encoding="utf-8", errors="replace"))

    def _repro(self, stages: Sequence[str]) -> tuple[int, float]:
        command = guarded(sys.executable, "-m", "dvc", "repro", *stages)
        with (
            open(self.log, "wb") as log,
            subprocess.Popen(
                command,
                cwd=self.path,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"PATH": own_path()},
            ) as process,
        ):
            # not by the clock, which counts other runs: what dvc and its stages computed
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, (used.ru_utime + used.ru_stime) / 60


class Runs:
    """The work of all processes; what they share changes under `changed`.

    Args:
        planner: of the claims.
        plans: of the settings that are run.
        kept: the runs that there are; new ones are added.
        listed: what lacks: `lacking_jobs`, or `carrying_jobs`.
    """

    def __init__(
        self, planner: Planner, plans: list[Plan], kept: Kept, listed: JobLister = lacking_jobs
    ) -> None:
        self.planner = planner
        self.plans = plans
        self.kept = kept
        self.listed = listed
        self.codes = equal_codes(find_reruns(kept))
        self.changed = threading.Condition()
        self.running: set[str] = set()
        self.failed: list[str] = []
        self.done = 0
        self.total = len(self.lacking())

    def lacking(self) -> list[Job]:
        """What is neither kept nor failed."""
        jobs = self.listed(self.planner.ledger, self.plans, self.kept.rows, self.codes)
        return [job for job in jobs if job.name not in self.failed]

    def work(self, folder: Folder) -> None:
        """One run after the other, until nothing can begin. First the one begun in this folder."""
        while True:
            with self.changed:
                jobs = [job for job in self.lacking() if job.name not in self.running]
                ready = [job for job in jobs if job.point is not None]
                if jobs and self.running and not ready:  # their search runs in another folder
                    self.changed.wait()
                    continue
                job = min(ready, key=lambda job: job.name != folder.begun, default=None)
                if job is None:
                    return
                self.running.add(job.name)
            say(f"{job.name}: begins")
            try:
                outcome = self.one(job, folder)
            except Exception as error:  # of one run: the others go on
                outcome = f"failed\n{error if isinstance(error, WorkbenchError) else repr(error)}"
                self.failed.append(job.name)
            with self.changed:
                self.running.remove(job.name)
                self.done += 1
                left = cost_text(self.lacking())
                self.changed.notify_all()
            say(f"{self.done} of {self.total}: {job.name}: {outcome}; left: {left}")

    def one(self, job: Job, folder: Folder) -> str:
        """Run a job and keep its row.

        Args:
            job: the run.
            folder: in which it runs.

        Returns:
            What came out, as a line.

        Raises:
            WorkbenchError: it failed, or was started with other code or settings than today's.
        """
        plan = job.plan
        params = self.planner.params(plan.setting, plan.dataset, job.point or AS_IT_IS)
        runtime = read_yaml(Path("params.yaml"))["runtime"] | ALONE
        code, minutes = folder.run(job, params | {"seed": job.seed, "runtime": runtime})
        log = folder.log.read_text(encoding="utf-8", errors="replace")
        if code and COLLAPSE not in log:
            raise WorkbenchError(last_lines(log))
        if Planner(read_ledger()).plan(plan.setting, plan.dataset).key != plan.key:
            raise WorkbenchError(
                f"{job.name}: was started with other code or settings than today's: not kept",
                "run the same command: it runs what lacks today",
            )
        row = keep_run(
            job,
            folder=folder.path,
            commit=folder.commit,
            minutes=minutes,
            has_collapsed=bool(code),
            kept=self.kept,
        )
        with self.changed:
            self.kept.rows.append(row)
            write_rows(self.kept.path, self.kept.rows)
        best = f"validation {row.val_rsum:.1f} in epoch {row.best_epoch}"
        return f"{row.outcome or best}, {minutes:.1f} minutes"


def run_all(runs: Runs, processes: int, commit: str) -> None:
    """Work through the queue with several processes.

    Args:
        runs: the work.
        processes: how many run at a time.
        commit: that they start from.

    Raises:
        WorkbenchError: some have failed; they are named when the others are done.
    """
    numbers = range(1, processes + 1)
    folders = [Folder(number, commit, is_alone=processes == 1) for number in numbers]
    threads = [threading.Thread(target=runs.work, args=[one], daemon=True) for one in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if runs.failed:
        raise WorkbenchError(
            f"{counted(len(runs.failed), 'run')} failed: {listing(runs.failed)}",
            "mend it, then run the same command",
        )


def last_lines(log: str) -> str:
    """The lines of a failed run's output that are printed."""
    return "\n".join(log.splitlines()[-TAIL:])


def committed_head() -> str:
    """The commit of the repository, 12 hex digits; WorkbenchError with changes of what decides
    results that are not committed."""
    changed = run_command("git", "status", "--porcelain", "--", *SOURCES).splitlines()
    if changed:
        files = listing(line[3:] for line in changed)
        raise WorkbenchError(f"not committed: {files}", "a kept run has a commit: git commit")
    return run_command("git", "rev-parse", "--short=12", "HEAD").strip()


def run_command(*command: str, folder: Path = Path()) -> str:
    """Run a command to its end.

    Args:
        command: program and arguments.
        folder: in which it runs.

    Returns:
        What it prints.

    Raises:
        WorkbenchError: it fails; the last line of its error output is named.
    """
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.splitlines() or ["no message"])[-1]
        raise WorkbenchError(f"{' '.join(command)}: {last}", "run from the repository's root")
    return done.stdout
