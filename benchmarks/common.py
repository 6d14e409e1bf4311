"""Timing in pairs: on a noisy machine only a ratio taken within one run means anything.

With the environment variable BENCHMARKS_SMALL every benchmark takes its small sizes and measures
once: a test runs all of them so, to see that their code still runs.
"""

import cProfile
import hashlib
import importlib
import os
import platform
import pstats
import re
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context, set_start_method
from operator import ge, gt, le, lt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import torch
from PIL import Image

from pipeline.features.split import Regions, Split, Words
from pipeline.runtime.repeatable import set_threads

Value = TypeVar("Value")
ROOT = Path(__file__).resolve().parents[1]
SMALL = "BENCHMARKS_SMALL" in os.environ
COMPARED = {"<=": le, ">=": ge, "<": lt, ">": gt}
LARGE = 0.03  # shares of the time below it are not named
NAMED = 6


def size(full: Value, small: Value) -> Value:
    """The one or the other: every size of a benchmark is told so."""
    return small if SMALL else full


THREADS = 2  # where a benchmark does not say otherwise
SIDE = size(4_096, 64)  # of the matrices whose product tells what the machine can do


@dataclass(frozen=True)
class Row:
    """One line of the benchmark table."""

    work: str
    figure: str  # what was measured ("1.3x of matmul + counting")
    target: str = ""  # bounds (">= 9x, < 300 MB"), empty where the figure is only stated
    values: float | tuple[float, ...] = ()  # what is compared with the bounds, in their order
    profiled: Callable[[], object] | None = None  # run again under a profiler after a miss
    profile: str = ""  # where the time goes, if that is known already

    @property
    def reached(self) -> bool | None:
        """Whether every value keeps its bound; None without a target."""
        bounds = re.findall(r"([<>]=?) ([\d,.]*\d)", self.target)
        if not bounds:
            return None
        pairs = zip(np.atleast_1d(self.values), bounds, strict=True)
        return all(
            COMPARED[sign](value, float(bound.replace(",", ""))) for value, (sign, bound) in pairs
        )


class Cost(NamedTuple):
    """What a run takes: seconds, on the clock and of all processors, and bytes."""

    wall: float
    processor: float
    bytes: int = 0  # at its peak beside what the process had before it, where that is measured


@dataclass(frozen=True)
class Paired:
    """Two forms of a work, timed in turn: medians over the pairs; ratios are ours / reference."""

    ratio: float  # of wall time
    processor: float
    ours: Cost
    reference: Cost

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
    """Times of two forms in this process over alternating runs after one warm-up of each."""
    ours()
    reference()
    return paired([(seconds(ours), seconds(reference)) for _ in range(size(runs, 1))])


def paired(pairs: list[tuple[Cost, Cost]]) -> Paired:
    return Paired(
        statistics.median(a.wall / b.wall for a, b in pairs),
        statistics.median(a.processor / b.processor for a, b in pairs),
        *(Cost(*np.median(side, axis=0)) for side in zip(*pairs, strict=True)),
    )


def seconds(work: Callable[[], object]) -> Cost:
    """What one run in this process takes, its memory aside."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - wall, time.process_time() - processor)


@contextmanager
def process() -> Iterator[Callable[..., Any]]:
    """What calls a function in a new process, always the same, on as many threads as this one: its
    memory and threads are its own."""
    # forked ones need not load torch, but may hold on to what this one has computed
    context = get_context("fork" if SMALL else "spawn")
    with ProcessPoolExecutor(1, context, _begin, (torch.get_num_threads(),)) as other:
        yield lambda function, *values: other.submit(function, *values).result()


def _begin(threads: int) -> None:
    """Processes are started as Python does by itself: one that was spawned would spawn its own,
    too, and workers that decode images would each load torch."""
    set_threads(threads)
    set_start_method(None, force=True)


def apart(function: Callable[..., Any], *values: Any) -> Any:
    with process() as call:
        return call(function, *values)


def memory(key: str = "VmHWM") -> int:
    """Bytes of this process, at most or now (VmRSS); getrusage would include its parent's."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split(f"{key}:")[1].split()[0])


def cost(work: Callable[[], Value]) -> tuple[Cost, Value]:
    """What one run in this process takes, and what it returns."""
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of what came before
    before, returned = memory("VmRSS"), []
    took = seconds(lambda: returned.append(work()))
    return took._replace(bytes=memory() - before), returned[0]


def extra_bytes(
    work: Callable[[Any], object], inputs: Callable[[int], Any], small: int, full: int
) -> int:
    """Bytes that a work takes beside its inputs of a size, after one of a small size."""
    work(inputs(small))
    values = inputs(full)
    return cost(lambda: work(values))[0].bytes


def measured(name: str) -> list[Row]:
    """The rows of a benchmark; those below their target with a profile of where the time goes,
    which is asked while what `rows` works on is still there."""
    benchmark, results = importlib.import_module(f"benchmarks.bench_{name}"), []
    # a process that forks others must not have more than one thread
    set_threads(size(getattr(benchmark, "THREADS", THREADS), 1))
    for row in benchmark.rows():
        if row.profiled and (SMALL or row.reached is False):
            row = replace(row, profile=where_time_goes(row.profiled))
        results.append(replace(row, profiled=None))
    return results


def machine() -> str:
    """Processor, cores, memory, versions, and the rate of matrix products, in words."""
    set_threads(size(THREADS, 1))
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else ""
    cpu = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", text, re.M))
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    rates = []
    for kind in (torch.float32, torch.bfloat16):
        a, b = (torch.randn(SIDE, SIDE).to(kind) for _ in range(2))
        best = min(seconds(lambda a=a, b=b: a @ b).wall for _ in range(4))
        rates.append(2 * SIDE**3 / best / 1e9)
    return (
        f"Machine: {platform.machine()}, {cpu.get('model name', 'processor unknown')} (family "
        f"{cpu.get('cpu family', '?')}, model {cpu.get('model', '?')}), {os.cpu_count()} "
        f"cores, {gigabytes:.0f} GB, no GPU used; Python {platform.python_version()}, torch "
        f"{torch.__version__}, {THREADS} threads where a row does not say otherwise. Its matrix "
        f"product reaches {rates[0]:.0f} GFLOP/s in float32 and {rates[1]:.0f} in bf16."
    )


@contextmanager
def new_folder() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        yield Path(name)


def copy_to_disk(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with open(target, "rb+") as handle:
        os.fsync(handle.fileno())


def photographs(folder: Path, side: tuple[int, int], count: int, cell: int = 8) -> pd.DataFrame:
    """JPEG files with the smoothness of photographs, and their table; side: width and height."""
    rng, table = np.random.default_rng(0), []
    for number in range(count):
        coarse = rng.integers(0, 256, (side[1] // cell, side[0] // cell, 3), dtype=np.uint8)
        path = folder / f"{number:04}.jpg"
        Image.fromarray(coarse).resize(side, Image.Resampling.BICUBIC).save(path, quality=90)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        table.append((f"{number:04}", str(path), *side, digest))
    return pd.DataFrame(table, columns=["image_id", "path", "width", "height", "sha256"])


def clustered(images: int, each: int, width: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Random unit vectors (N, K) and `each` near every one of them, noise times as long."""
    random = np.random.default_rng(0)
    pictures = random.standard_normal((images, width), dtype=np.float32)
    texts = random.standard_normal((images * each, width), dtype=np.float32)
    # In place: a temporary copy would hide what is measured from the peak of memory.
    texts *= noise
    texts.reshape(images, each, width)[...] += pictures[:, None]
    for vectors in (pictures, texts):
        vectors /= np.sqrt(np.einsum("nk,nk->n", vectors, vectors))[:, None]
    return pictures, texts


def captions_of(count: int, vocabulary: int) -> Words:
    """Word ids (M, 16) of 8 to 16 words, 12 on average, and their lengths."""
    return Words(torch.randint(1, vocabulary, (count, 16)), torch.randint(8, 17, (count,)))


def regions_of(images: int, number: int, width: int) -> Regions:
    """Random regions (N, R, D), none of them padding."""
    features, positions = torch.randn(images, number, width), torch.rand(images, number, 4)
    return Regions(features, positions, torch.full((images,), number))


def split_of(regions: Regions, words: Words) -> Split:
    """A split of images with regions and captions with words."""
    names = [str(number) for number in range(len(regions.features))]
    captions = len(words.ids)

    def images_of(rows: np.ndarray, generator: np.random.Generator | None = None) -> Regions:
        return Regions(regions.features[rows], regions.positions[rows], regions.counts[rows])

    def captions_at(rows: np.ndarray, generator: np.random.Generator | None = None) -> Words:
        return Words(words.ids[rows], words.lengths[rows])

    return Split(
        image_ids=names,
        image_groups=names,
        caption_ids=[str(number) for number in range(captions)],
        described=np.arange(captions) % len(names),
        images=images_of,
        captions=captions_at,
    )


def where_time_goes(work: Callable[[], object]) -> str:
    """The functions that take most of a work's time, and the operators of its backward pass."""
    work()
    profile = cProfile.Profile()
    profile.runcall(work)
    totals = {
        function_name(*key): figures[2]
        for key, figures in pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]
    }
    text = shares(totals)
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
