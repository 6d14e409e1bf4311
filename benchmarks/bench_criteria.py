"""Inference criteria of both directions, against reading the matrix and its exponentials or a sort.

The figures of docs/benchmarks.md for 5,000 x 25,000 scores are those with IMAGES = 5_000.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.common import Row, apart, extra_bytes, paired_ratio, size
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.findings import occurrences

IMAGES, CAPTIONS_PER_IMAGE = size(2_000, 20), 5
ASSIGNED = size(500, 10)  # images of the assignment, which takes longest
ITERATIONS = size(20, 2)
LIMIT = 5
SOFT = ("inverted_softmax", "csls", "dual_softmax", "querybank", "sinkhorn")


def rows() -> Iterator[Row]:
    scores = random_scores(IMAGES)
    shape = f"{IMAGES:,} x {scores.shape[1]:,}"
    works = {name: partial(both, name, scores) for name in SOFT}
    works["hubness"] = lambda: [occurrences(scores, way) for way in ("i2t", "t2i")]
    for name, ours in works.items():
        bound, what = reference(name, scores)
        pair = paired_ratio(ours, bound, runs=3)
        work, figure = f"{name} of {shape}, both directions", pair.of(f"{what} per direction")
        yield Row(work, figure, f"<= {LIMIT}x", pair.ratio, ours)
    yield hungarian()
    for name in SOFT:
        extra = apart(extra_bytes, partial(both, name), random_scores, 20, IMAGES)
        share = extra / scores.nbytes
        figure = f"{extra / 1e6:.0f} MB, {share:.2f} of the matrix, its result included"
        yield Row(f"memory of {name} beside the scores, {shape}", figure, "< 2x the matrix", share)


def random_scores(images: int) -> np.ndarray:
    """(N, 5 N) float32 like cosines: spread around 0.1, true pairs higher."""
    random = np.random.default_rng(0)
    scores = random.standard_normal((images, images * CAPTIONS_PER_IMAGE), dtype=np.float32)
    scores *= 0.1
    scores += 0.1
    captions = np.arange(scores.shape[1])
    scores[captions // CAPTIONS_PER_IMAGE, captions] += 0.3
    return scores


def both(name: str, scores: np.ndarray) -> None:
    criterion = Criterion(name, iterations=ITERATIONS)
    for direction in ("i2t", "t2i"):
        criterion.rescored(scores, direction)


def reference(name: str, scores: np.ndarray) -> tuple[Callable[[], None], str]:
    """The work that a criterion is measured by, and its name."""
    # each sweep of Sinkhorn needs two sums of exponentials
    exponentials = 2 * ITERATIONS if name == "sinkhorn" else 1

    def read_and_exp() -> None:
        for _ in range(2):
            scores.sum()
            result = np.exp(scores)  # a new matrix, as every criterion gives one
            for _ in range(exponentials - 1):
                np.exp(scores, out=result)

    def read_and_sort() -> None:
        for _ in range(2):
            scores.sum()
            np.sort(scores, axis=1)

    if name in ("csls", "hubness"):
        return read_and_sort, "read + sort"
    return read_and_exp, f"read + {exponentials} exp" if exponentials > 1 else "read + exp"


def hungarian() -> Row:
    """The assignment of images to several captions, which scipy does of repeated images."""
    scores = random_scores(ASSIGNED)
    expanded = np.repeat(scores, CAPTIONS_PER_IMAGE, axis=0).T.astype(np.float64)
    ours = partial(Criterion("hungarian").rescored, scores, "i2t")
    pair = paired_ratio(ours, lambda: linear_sum_assignment(expanded, maximize=True), runs=3)
    work = f"hungarian of {ASSIGNED:,} x {scores.shape[1]:,}, one direction"
    figure = pair.of("scipy's assignment of the expanded matrix")
    return Row(work, figure, "<= 1.5x", pair.ratio)
