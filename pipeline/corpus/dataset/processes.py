"""Work on many files in a few processes, results in order."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress, require_semaphores

T = TypeVar("T")
R = TypeVar("R")
WORTH_IT = 500  # starting processes takes about as long as decoding this many small images


def ordered_map(
    function: Callable[[T], R], items: Sequence[T], workers: int, title: str
) -> list[R]:
    """[function(item) for item in items], in several processes where that is worth it.

    Args:
        function: what is done with an item; it must be one that other processes can import.
        items: one for each image; below WORTH_IT of them this process does all.
        workers: processes; below two, this one does all.
        title: what is done, for the progress.

    Returns:
        The results in the order of the items, whatever `workers` is.

    Raises:
        WorkbenchError: a process died.
    """
    with Progress(title, len(items), "images") as progress:
        results: list[R] = []
        if workers < 2 or len(items) < WORTH_IT:
            for item in items:
                results.append(function(item))
                progress.update()
            return results
        require_semaphores("processes that check images", "set runtime.threads to 1")
        # Forking a process that has threads (a progress bar, pyarrow's pool) can hang; a fork
        # server imports once for all workers.
        methods = multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            try:
                for result in pool.map(function, items, chunksize=16):
                    results.append(result)
                    progress.update()
            except BrokenProcessPool:
                raise WorkbenchError(
                    f"{title}: a process died after {len(results):,} of {len(items):,} images",
                    "out of memory? lower corpus.max_megapixels or runtime.threads",
                ) from None
        return results
