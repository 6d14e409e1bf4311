"""Inference criteria of both directions, against reading the matrix and its exponentials or a sort.

`python -m benchmarks.bench_criteria 5000` prints the same table for 5,000 x 25,000 scores.
"""

import sys
from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from benchmarks.common import Row, apart, grown, paired_ratio
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.nearest import occurrences

CAPTIONS_PER_IMAGE = 5
ITERATIONS = 20
LIMIT = 5.0
SOFT = ("inverted_softmax", "csls", "dual_softmax", "querybank", "sinkhorn")


def rows(images: int = 2000) -> list[Row]:
    """Time and memory of every criterion on (images, 5 images) scores, and of hubness."""
    scores = random_scores(images)
    runs = 3 if images <= 2000 else 1
    size = f"{images:,} x {scores.shape[1]:,}"
    work = {f"{name} of {size}": (name, lambda name=name: both(name, scores)) for name in SOFT}
    work[f"hubness of {size}"] = (
        "csls",
        lambda: [occurrences(scores, way) for way in ("i2t", "t2i")],
    )
    table = []
    for title, (name, ours) in work.items():
        bound, what = reference(name, scores)
        pair = paired_ratio(ours, bound, runs)
        title = f"{title}, both directions"
        table.append(pair.at_most(title, LIMIT, f"{what} per direction", ours))
    return [*table, _hungarian(), *(_memory(name, images) for name in SOFT)]


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
    """Rescore for both directions, one after the other."""
    criterion = Criterion(name, iterations=ITERATIONS)
    for direction in ("i2t", "t2i"):
        criterion.rescored(scores, direction)


def reference(name: str, scores: np.ndarray) -> tuple[Callable[[], object], str]:
    """The work that a criterion is measured by, and its name."""
    tensor = torch.from_numpy(scores)

    def least(exponentials: int) -> None:
        for _ in range(2):
            tensor.sum()
            result = torch.exp(tensor)  # a new matrix, as every criterion gives one
            for _ in range(exponentials - 1):
                torch.exp(tensor, out=result)

    def least_with_sort() -> None:
        for _ in range(2):
            tensor.sum()
            np.sort(scores, axis=1)

    if name == "csls":
        return least_with_sort, "read + sort"
    if name == "sinkhorn":  # each sweep needs two sums of exponentials
        return lambda: least(2 * ITERATIONS), f"read + {2 * ITERATIONS} exp"
    return lambda: least(1), "read + exp"


def _hungarian(images: int = 500) -> Row:
    scores = random_scores(images)
    expanded = np.repeat(scores, CAPTIONS_PER_IMAGE, axis=0).T.astype(np.float64)
    criterion = Criterion("hungarian")
    pair = paired_ratio(
        lambda: criterion.rescored(scores, "i2t"),
        lambda: linear_sum_assignment(expanded, maximize=True),
        runs=3,
    )
    work = f"hungarian of {images:,} x {scores.shape[1]:,}, one direction"
    return pair.at_most(work, 1.5, "scipy's assignment of the expanded matrix")


def _memory(name: str, images: int) -> Row:
    found = apart(_grown, name, images)
    share = found / (4 * images * images * CAPTIONS_PER_IMAGE)
    return Row(
        f"memory of {name} beside the scores, {images:,} x {images * CAPTIONS_PER_IMAGE:,}",
        f"{found / 1e6:.0f} MB, {share:.2f} of the matrix, its result included",
        "< 2x the matrix",
        share < 2,
    )


def _grown(name: str, images: int) -> int:
    both(name, random_scores(20))  # a warm-up
    scores = random_scores(images)
    return grown(lambda: both(name, scores))


if __name__ == "__main__":
    for row in rows(int(sys.argv[1])):
        print(f"| {row.work} | {row.figure} | {row.target} | {row.reached} |")
