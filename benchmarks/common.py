"""Timing in pairs: on a noisy machine only a ratio taken within one run means anything."""

import cProfile
import hashlib
import pstats
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from PIL import Image

from pipeline.inputs.batches import Split
from pipeline.runtime.repeatable import set_threads

LARGE = 0.03  # shares of the time below it are not named
NAMED = 6


@dataclass(frozen=True)
class Row:
    """One line of the benchmark table."""

    work: str
    figure: str  # what was measured ("1.3x of matmul + counting")
    target: str = ""  # what is to be reached, empty where the figure is only stated
    reached: bool | None = None  # None where nothing is to be reached
    profiled: Callable[[], object] | None = None  # run again under a profiler after a miss
    profile: str = ""  # where the time goes, if that is known already


class Seconds(NamedTuple):
    """What a run takes, in seconds on the clock and of all processors."""

    wall: float
    processor: float


@dataclass(frozen=True)
class Paired:
    """Two forms of a work, timed in turn: medians over the pairs; ratios are ours / reference."""

    ratio: float  # of wall time
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

    def at_most(
        self, work: str, limit: float, reference: str, ours: Callable[[], object] | None = None
    ) -> Row:
        """A row of a work that may take `limit` times the reference."""
        return Row(work, self.of(reference), f"<= {limit:g}x", self.ratio <= limit, ours)

    def at_least(
        self, work: str, wanted: float, than: str, ours: Callable[[], object] | None = None
    ) -> Row:
        """A row of a work that should be `wanted` times as fast as the reference."""
        return Row(work, self.faster(than), f">= {wanted:g}x", 1 / self.ratio >= wanted, ours)


def paired_ratio(
    ours: Callable[[], object], reference: Callable[[], object], runs: int = 5
) -> Paired:
    """Times of two forms in this process over alternating runs after one warm-up of each."""
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


def apart(function: Callable[..., Any], *values: Any, threads: int | None = None) -> Any:
    """What a function returns in a fresh process, on as many threads as this one has or `threads`:
    its peak of memory is its own."""
    wanted = threads or torch.get_num_threads()
    with ProcessPoolExecutor(1, get_context("spawn"), set_threads, (wanted,)) as process:
        return process.submit(function, *values).result()


def memory(key: str = "VmHWM") -> int:
    """Bytes of this process, at most or now (VmRSS); getrusage would include its parent's."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split(f"{key}:")[1].split()[0])


def grown(work: Callable[[], object]) -> int:
    """Bytes by which a work raises this process's peak of memory."""
    before = memory()
    work()
    return memory() - before


def photographs(folder: Path, size: tuple[int, int], count: int, cell: int = 8) -> pd.DataFrame:
    """JPEG files with the smoothness of photographs, and their table; size: width and height."""
    rng, table = np.random.default_rng(0), []
    for number in range(count):
        coarse = rng.integers(0, 256, (size[1] // cell, size[0] // cell, 3), dtype=np.uint8)
        path = folder / f"{number:04}.jpg"
        Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(path, quality=90)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        table.append((f"{number:04}", str(path), *size, digest))
    return pd.DataFrame(table, columns=["image_id", "path", "width", "height", "sha256"])


def split_of(
    images: int, captions: int, pictures: Callable[..., Any], texts: Callable[..., Any]
) -> Split:
    """A split of so many images and captions whose rows two functions give."""
    names = [str(number) for number in range(images)]
    described = np.arange(captions) % images
    return Split(names, names, [str(n) for n in range(captions)], described, pictures, texts)


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
