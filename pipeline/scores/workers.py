"""Evaluation from embeddings in several processes, each with some runs of images at a time: the
same bytes for any number of them."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from pipeline.runtime.process import require_semaphores
from pipeline.runtime.repeatable import set_threads
from pipeline.scores.file import SplitScores
from pipeline.scores.tiles import Numbers, Products, Work

_held: list[Products] = []  # in a process: the tiles it was started with


@contextmanager
def spread_over(split: SplitScores, processes: int) -> Iterator[SplitScores]:
    """The same scores, whose tiles are worked on in processes as long as the context lasts, with as
    many threads as this one, which decide the last bits. A matrix is left to this process."""
    products = split.scores
    if processes == 1 or not isinstance(products, Products) or len(products.rows()) == 1:
        yield split
        return
    require_semaphores("processes that count ranks", "set runtime.processes to 1")
    # Forking a process that has threads can hang; a fork server imports once for all workers.
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    context.set_forkserver_preload([__name__])
    start = products, torch.get_num_threads()
    with ProcessPoolExecutor(processes, context, _hold, start) as pool:

        def spread(work: Work[Any], numbers: Numbers, runs: list[slice]) -> Iterator[Any]:
            return pool.map(_done, [work] * len(runs), [numbers] * len(runs), runs)

        yield replace(split, scores=products.changed(spread=spread))


def _hold(products: Products, threads: int) -> None:
    set_threads(threads)
    _held[:] = [products]


def _done(work: Work[Any], numbers: Numbers, rows: slice) -> Any:
    products = _held[0]
    return work(products if numbers is None else products.of(numbers), rows)
