"""Timing in pairs: on a noisy machine only a ratio taken within one run means anything."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the benchmark table.

    work: what is done, with its sizes; figure: what was measured ("1.3x of matmul + counting");
    target: what is to be reached; reached: whether it was.
    """

    work: str
    figure: str
    target: str
    reached: bool


def paired_ratio(
    ours: Callable[[], object],
    reference: Callable[[], object],
    runs: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float, float]:
    """Median of time(ours) / time(reference) over alternating runs after one warm-up of each.

    clock: time.process_time for processor time of all threads, which neighbours change less.
    Returns (ratio, median seconds of ours, median seconds of reference).
    """
    ours()
    reference()
    pairs = [(_seconds(ours, clock), _seconds(reference, clock)) for _ in range(runs)]
    return (
        statistics.median(a / b for a, b in pairs),
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
    )


def _seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return clock() - start
