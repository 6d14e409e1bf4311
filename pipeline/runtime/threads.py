"""How long a thread that has nothing to do keeps its processor.

The threads of a parallel operation wait for each other at its end, and for the next one. By default
they wait actively, for milliseconds: the processor counts, and nothing else can use it. Alone on a
machine that saves some waking up. Beside other work it is ruinous: the thread that is waited for
does not get the processor that the other one burns. So threads here wait actively for some
microseconds and then sleep. This changes no result.
"""

import os
from collections.abc import MutableMapping
from pathlib import Path

# Read by the libraries when they are loaded. GNU's OpenMP, which torch's operators, MKL and oneDNN
# use: rounds of its waiting loop. Intel's OpenMP: milliseconds. OpenBLAS: 2 to this power of the
# processor's cycles. Measured in docs/benchmarks.md.
WAITING = {
    "GOMP_SPINCOUNT": "2000",
    "KMP_BLOCKTIME": "0",
    "OPENBLAS_THREAD_TIMEOUT": "16",
}
# In the environment: the processors of a run whose stages share them, and take turns (`vse repro`).
OF_RUN = "WORKBENCH_PROCESSORS"


def shorten_waiting(environment: MutableMapping[str, str]) -> None:
    """Let waiting threads sleep soon, before the libraries are loaded, whatever the shell says."""
    environment.update(WAITING)


def allowed_processors(
    groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> float:
    """How many processors this process may use at once.

    Args:
        groups: where Linux mounts its control groups.
        own: the file that names the groups of this process, a line `number:controllers:path` each.

    Returns:
        The smallest of its quotas (version 1 and 2 of control groups), and of the processors that
        it, or the run that it is part of, is bound to.
    """
    numbers = [float(os.environ.get(OF_RUN) or len(os.sched_getaffinity(0)))]
    names: tuple[str, ...]
    for line in own.read_text().splitlines() if own.is_file() else ():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            inner = groups
            names = ("cpu.max",)
        elif "cpu" in controllers.split(","):
            inner = groups / controllers
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        else:
            continue
        # inside a container its own group is the root of the mount, whatever the path says
        for folder in {inner, inner / path.lstrip("/")}:
            if all((folder / name).is_file() for name in names):
                numbers += _quota_of(" ".join((folder / name).read_text() for name in names))
    return min(numbers)


def processes_beside(threads: int, wanted: int, allowed: float) -> int:
    """How many processes may prepare the work of a process that computes, without taking its
    processors: on two processors, two threads and two processes that decode images would wait for
    each other.

    Args:
        threads: of the process that computes.
        wanted: processes that params.yaml asks for, 0 for none.
        allowed: `allowed_processors`.

    Returns:
        `wanted`, or as many as there are processors left, at least one where any is wanted.
    """
    return min(wanted, max(1, int(allowed) - threads))


def _quota_of(text: str) -> list[float]:
    """The processors of `quota period` in microseconds; none where there is no limit."""
    quota, period = text.split()[:2]
    return [float(quota) / float(period)] if quota not in ("max", "-1") else []


def quota_notes(threads: int, allowed: float) -> list[str]:
    """What a user must know of a container whose processors are fewer than its threads.

    Args:
        threads: runtime.threads of params.yaml.
        allowed: `allowed_processors`.

    Returns:
        A line, or none.
    """
    if threads <= allowed:
        return []
    return [
        f"this process may use {allowed:g} processors, runtime.threads is {threads}: it takes up "
        f"to {threads / allowed:.1f} times as long as with {threads} processors; results stay the "
        "same (another number of threads would change their last bits)"
    ]
