"""What `python -m benchmarks` asks of a process of its own: memory and threads of one benchmark
are not another's."""

import importlib
import os
import platform
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context, set_start_method
from pathlib import Path
from typing import TypeVar

import torch

from benchmarks.common import Row, seconds, where_time_goes
from pipeline.runtime.repeatable import set_threads

Result = TypeVar("Result")
THREADS = 2
SIDE = 4_096  # of the matrices whose product tells what the machine can do


def alone(work: Callable[..., Result], *arguments: str) -> Result:
    """The result of a function of this module in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn"), _as_a_stage) as process:
        return process.submit(work, *arguments).result()


def _as_a_stage() -> None:
    """Threads as the rows say. Processes are started as Python does by itself: one that was spawned
    would spawn its own, too, and workers that decode images would each load torch."""
    set_threads(THREADS)
    set_start_method(None, force=True)


def measured(name: str) -> list[Row]:
    """The rows of a benchmark; those below their target with a profile of where the time goes."""
    found: list[Row] = importlib.import_module(f"benchmarks.bench_{name}").rows()
    return [
        replace(row, profiled=None, profile=where_time_goes(row.profiled))
        if row.profiled and row.reached is False
        else replace(row, profiled=None)
        for row in found
    ]


def machine() -> str:
    """Processor, cores, memory, versions, and the rate of matrix products, in words."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else ""
    found = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", text, re.M))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    rates = []
    for kind in (torch.float32, torch.bfloat16):
        a, b = (torch.randn(SIDE, SIDE).to(kind) for _ in range(2))
        best = min(seconds(lambda a=a, b=b: a @ b).wall for _ in range(4))
        rates.append(2 * SIDE**3 / best / 1e9)
    return (
        f"Machine: {platform.machine()}, {found.get('model name', 'processor unknown')} (family "
        f"{found.get('cpu family', '?')}, model {found.get('model', '?')}), {os.cpu_count()} "
        f"cores, {memory:.0f} GB, no GPU used; Python {platform.python_version()}, torch "
        f"{torch.__version__}, {THREADS} threads where a row does not say otherwise. Its matrix "
        f"product reaches {rates[0]:.0f} GFLOP/s in float32 and {rates[1]:.0f} in bf16."
    )
