"""Timing in pairs: on a noisy machine only a ratio taken within one run means anything."""

import cProfile
import pstats
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from pipeline.runtime.repeatable import set_threads

LARGE = 0.03  # shares of the time below it are not named
NAMED = 6


@dataclass(frozen=True)
class Row:
    """One line of the benchmark table.

    Attributes:
        work: what is done, with its sizes.
        figure: what was measured ("1.3x of matmul + counting").
        target: what is to be reached, empty where the figure is only stated.
        reached: whether it was; None where nothing is to be reached.
        profiled: run again under a profiler when the target was missed.
        profile: where the time goes, if that is known already.
    """

    work: str
    figure: str
    target: str = ""
    reached: bool | None = None
    profiled: Callable[[], object] | None = None
    profile: str = ""


class Seconds(NamedTuple):
    """What a run takes, in seconds on the clock and of all processors."""

    wall: float
    processor: float


@dataclass(frozen=True)
class Paired:
    """Two forms of a work, timed in turn: medians over the pairs.

    Attributes:
        ratio: wall time of ours / of the reference.
        processor: the same of processor time.
        ours: seconds of ours.
        reference: seconds of the reference.
    """

    ratio: float
    processor: float
    ours: Seconds
    reference: Seconds

    def faster(self, than: str) -> str:
        """How many times as fast as the other form ours is, in words."""
        return f"{1 / self.ratio:.1f}x as fast as {than} ({self.seconds(1 / self.processor)})"

    def of(self, reference: str) -> str:
        """How much of the other form's time ours takes, in words."""
        return f"{self.ratio:.2f}x of {reference} ({self.seconds(self.processor)})"

    def seconds(self, processor: float) -> str:
        """The seconds of both, and their ratio in processor time."""
        return (
            f"{_short(self.ours.wall)} s, {_short(self.reference.wall)} s; in processor time "
            f"{processor:.2f}x: {_short(self.ours.processor)} s, "
            f"{_short(self.reference.processor)} s"
        )


def paired_ratio(
    ours: Callable[[], object], reference: Callable[[], object], runs: int = 5
) -> Paired:
    """Times of two forms over alternating runs after one warm-up of each.

    Args:
        ours: one run of our form, in this process.
        reference: one run of the other.
        runs: pairs.
    """
    ours()
    reference()
    return paired([(seconds(ours), seconds(reference)) for _ in range(runs)])


def paired(pairs: list[tuple[Seconds, Seconds]]) -> Paired:
    """The medians of pairs (ours, reference) that were timed one after the other."""
    return Paired(
        statistics.median(a.wall / b.wall for a, b in pairs),
        statistics.median(a.processor / b.processor for a, b in pairs),
        *(Seconds(*map(statistics.median, zip(*side, strict=True)))
          for side in zip(*pairs, strict=True)),
    )  # fmt: skip


def seconds(work: Callable[[], object]) -> Seconds:
    """What one run in this process takes."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return Seconds(time.perf_counter() - wall, time.process_time() - processor)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread of torch and BLAS, and on as many as before afterwards."""
    threads = torch.get_num_threads()
    set_threads(1)
    try:
        yield
    finally:
        set_threads(threads)


def where_time_goes(work: Callable[[], object]) -> str:
    """The functions that take most of a work's time, and the operators of its backward pass."""
    work()
    profile = cProfile.Profile()
    profile.runcall(work)
    found = {
        function_name(*place): figures[2]
        for place, figures in pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]
    }
    text = shares(found)
    if "run_backward" in text:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as operators:
            work()
        times = {event.key: event.self_cpu_time_total for event in operators.key_averages()}
        text += f"; of all operators {shares(times)}"
    return text


def shares(times: dict[str, float]) -> str:
    """The largest parts of a whole, in words; parts below LARGE of it are left out."""
    whole = sum(times.values())
    largest = sorted(times.items(), key=lambda item: -item[1])[:NAMED]
    return ", ".join(f"{name} {t / whole:.0%}" for name, t in largest if t >= LARGE * whole)


def function_name(file: str, line: int, function: str) -> str:
    """A function as a reader looks for it: module and name, of built-in ones their name alone."""
    if file == "~":
        words = function.strip("<>{}").removeprefix("built-in method ").split("'")
        return f"`{words[1] if len(words) > 1 else words[0].split('.')[-1]}`"
    return f"`{Path(file).parent.name}/{Path(file).name}:{function}`"


def _short(value: float) -> str:
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"
