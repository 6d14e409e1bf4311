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
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context, set_start_method
from multiprocessing.connection import Connection
from operator import ge, gt, le, lt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import torch
from PIL import Image

from pipeline.features.split import Captions, Images, Regions, Split, Words
from pipeline.runtime.repeatable import set_threads

Value = TypeVar("Value")
ROOT = Path(__file__).resolve().parents[1]
SMALL = "BENCHMARKS_SMALL" in os.environ
COMPARED = {"<=": le, ">=": ge, "<": lt, ">": gt}
_measured_pairs: "list[Paired]" = []  # since the last row
LARGE = 0.03  # shares of the time below it are not named
NAMED = 6


def size(full: Value, small: Value) -> Value:
    """The one or the other: every size of a benchmark is told so."""
    return small if SMALL else full


THREADS = 2  # where a benchmark does not say otherwise
SIDE = size(4_096, 64)  # of the matrices whose product tells what the machine can do
GPU_SIDE = size(8_192, 64)


@dataclass(frozen=True)
class Row:
    """One line of the benchmark table."""

    work: str
    figure: str  # what was measured ("1.3x of matmul + counting")
    target: str = ""  # bounds (">= 9x, < 300 MB"), empty where the figure is only stated
    values: float | tuple[float, ...] = ()  # what is compared with the bounds, in their order
    profiled: Callable[[], object] | None = None  # run again under a profiler after a miss
    profile: str = ""  # where the time goes, if that is known already
    samples: "tuple[Paired, ...]" = ()  # every pair of runs behind it; `measured` adds them

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
    pairs: tuple[tuple[Cost, Cost], ...] = field(default=(), compare=False)  # what was measured

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
    """Medians over pairs of runs, which the next row keeps as its samples."""
    ours, reference = (Cost(*np.median(side, axis=0)) for side in zip(*pairs, strict=True))
    pair = Paired(
        ratio=statistics.median(a.wall / b.wall for a, b in pairs),
        processor=statistics.median(a.processor / b.processor for a, b in pairs),
        ours=ours,
        reference=reference,
        pairs=tuple(pairs),
    )
    _measured_pairs.append(pair)
    return pair


def seconds(work: Callable[[], object]) -> Cost:
    """What one run in this process takes, its memory aside."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - wall, time.process_time() - processor)


@contextmanager
def process() -> Iterator[Callable[..., Any]]:
    """What calls a function in a new process, always the same, on as many threads as this one: its
    memory and threads are its own."""
    with processes(1) as other:
        yield lambda function, *values: other.submit(function, *values).result()


def processes(number: int) -> ProcessPoolExecutor:
    """New processes, on as many threads each as this one."""
    return ProcessPoolExecutor(number, _context(), _begin, (torch.get_num_threads(),))


def _context() -> Any:
    # forked ones need not load torch, but may hold on to what this one has computed
    return get_context("fork" if SMALL else "spawn")


def _begin(threads: int) -> None:
    """Processes are started as Python does by itself: one that was spawned would spawn its own,
    too, and workers that decode images would each load torch."""
    set_threads(threads)
    set_start_method(None, force=True)


def apart(function: Callable[..., Any], *values: Any) -> Any:
    with process() as call:
        return call(function, *values)


def side_by_side(number: int, function: Callable[..., Any], *values: Any) -> list[Any]:
    """What a function returns in several new processes at once."""
    with processes(number) as others:
        calls = [others.submit(function, *values) for _ in range(number)]
        return [call.result() for call in calls]


def rows_apart(name: str) -> Iterator[Row]:
    """The rows of a benchmark, each as soon as it is measured, from a new process.

    Args:
        name: Of the benchmark.

    Yields:
        Its rows.

    Raises:
        RuntimeError: The benchmark failed; the text is that of its process.
    """
    context = _context()
    receiving, sending = context.Pipe(duplex=False)
    threads = torch.get_num_threads()
    other = context.Process(target=_send_rows, args=(name, threads, sending))
    other.start()
    sending.close()
    try:
        while True:
            said = receiving.recv()
            if isinstance(said, str):
                raise RuntimeError(said)
            yield said
    except EOFError:  # it has ended
        other.join()
        if other.exitcode:
            raise RuntimeError(f"its process ended with {other.exitcode}") from None
    finally:
        other.terminate()
        other.join()


def _send_rows(name: str, threads: int, sending: Connection) -> None:
    _begin(threads)
    try:
        for row in measured(name):
            sending.send(row)
    except Exception as error:
        where = traceback.format_exc() if SMALL else ""
        sending.send(f"{where}{type(error).__name__}: {error}")


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


def measured(name: str) -> Iterator[Row]:
    """The rows of a benchmark with the samples behind them; those below their target with a profile
    of where the time goes, which is asked while what `rows` works on is still there."""
    benchmark = importlib.import_module(f"benchmarks.bench_{name}")
    # a process that forks others must not have more than one thread
    set_threads(size(getattr(benchmark, "THREADS", THREADS), 1))
    _measured_pairs.clear()
    for row in benchmark.rows():
        samples = tuple(_measured_pairs)
        _measured_pairs.clear()
        if row.profiled and (SMALL or row.reached is False):
            row = replace(row, profile=where_time_goes(row.profiled))
        yield replace(row, profiled=None, samples=samples)


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


def gpu_machine() -> str:
    """GPU, memory, processors, versions, and the rate of matrix products on the GPU, in words."""
    on_gpu = torch.cuda.is_available() and not SMALL
    device = torch.device("cuda" if on_gpu else "cpu")
    name = "no GPU"
    if on_gpu:
        about = torch.cuda.get_device_properties(device)
        name = f"{about.name}, {about.total_memory / 2**30:.0f} GB"
        name += f", {about.multi_processor_count} multiprocessors"
    rates = []
    for kind in (torch.float32, torch.bfloat16):
        a, b = (torch.randn(GPU_SIDE, GPU_SIDE, device=device).to(kind) for _ in range(2))
        best = min(seconds(lambda a=a, b=b: float((a @ b)[0, 0])).wall for _ in range(4))
        rates.append(2 * GPU_SIDE**3 / best / 1e12)
    return (
        f"Machine: {name}, {os.cpu_count()} processors; Python {platform.python_version()}, torch "
        f"{torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}. "
        f"Its matrix product reaches {rates[0]:.2g} TFLOP/s in float32 and {rates[1]:.2g} in bf16."
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


def split_of(images: Images, captions: Captions) -> Split:
    """A split of N images and M captions, the m-th of which describes image m modulo N.

    Args:
        images: All of them.
        captions: All of them.

    Returns:
        The split.
    """
    numbers = len(images if isinstance(images, torch.Tensor) else images.features)
    names = [str(number) for number in range(numbers)]
    count = len(captions if isinstance(captions, torch.Tensor) else captions.ids)

    def images_of(rows: np.ndarray, generator: np.random.Generator | None = None) -> Any:
        return _rows_of(images, rows)

    def captions_at(rows: np.ndarray, generator: np.random.Generator | None = None) -> Any:
        return _rows_of(captions, rows)

    return Split(
        image_ids=names,
        image_groups=names,
        caption_ids=[str(number) for number in range(count)],
        described=np.arange(count) % numbers,
        images=images_of,
        captions=captions_at,
    )


def _rows_of(side: Any, rows: np.ndarray) -> Any:
    """Some rows of a tensor, or of each of a tuple's tensors."""
    if isinstance(side, torch.Tensor):
        return side[rows]
    return type(side)(*(part[rows] for part in side))


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
