"""K-means against faiss from the same first centres, and what k-means++ costs.

Both have a process of their own, as two pools of threads, waiting for work, would slow each other.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from benchmarks.common import Cost, Row, apart, cost, extra_bytes, paired, process, seconds, size
from pipeline.features.statistics.kmeans import GPU_VALUES, VALUES, assign, kmeans
from pipeline.runtime.process import keep_freed_memory

POINTS, WIDTH, K, UPDATES = size((20_000, 512, 1_000, 25), (300, 4, 5, 3))
WORK = f"k-means of {POINTS:,} x {WIDTH}, k = {K:,}, {UPDATES} updates"


def rows() -> Iterator[Row]:
    keep_freed_memory()  # as the stage does
    points = torch.from_numpy(random_points(POINTS))
    yield against_faiss(points)
    yield starts(points)
    extra = apart(extra_bytes, start, random_points, 200, POINTS)
    held = 4 * POINTS * WIDTH
    figure = f"{extra / 1e6:.0f} MB, {extra / held:.1f} copies; blocks of {VALUES:,} distances, "
    figure += f"on a GPU of {GPU_VALUES:,}"
    work = f"memory of the same beside the points ({held / 1e6:.0f} MB)"
    yield Row(work, figure, "<= 3 copies", extra / held)


def random_points(count: int) -> np.ndarray:
    """(N, D) float32 like pooled features: overlapping clusters of unequal size, not negative."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((2 * K, WIDTH), dtype=np.float32)
    chances = 1 / np.arange(10, 10 + len(centres))
    members = random.choice(len(centres), count, p=chances / chances.sum())
    noise = random.standard_normal((count, WIDTH), dtype=np.float32)
    return np.maximum(centres[members] + noise, 0)


def faiss_run(threads: int) -> tuple[Cost, np.ndarray]:
    import faiss  # only in this process

    faiss.omp_set_num_threads(threads)
    points = random_points(POINTS)
    model = faiss.Kmeans(WIDTH, K, niter=UPDATES, max_points_per_centroid=POINTS)
    took = seconds(lambda: model.train(points, init_centroids=points[:K]))
    return took, np.asarray(model.centroids)


def against_faiss(points: torch.Tensor) -> Row:
    """Time, and inertia, at most 1e-4 above that of faiss, in pairs."""
    ours = partial(kmeans, points, K, points[:K], UPDATES, 0)
    pairs = []
    with process() as other:
        for _ in range(size(3, 1) + 1):  # the first is a warm-up
            theirs, centres = other(faiss_run, torch.get_num_threads())
            pairs.append((seconds(ours), theirs))
    pair, fit = paired(pairs[1:]), ours()
    inertia = assign(points, torch.from_numpy(np.asarray(centres, np.float32))).inertia
    share = fit.inertia[-1] / inertia
    return Row(
        f"{WORK}, against faiss from the same centres",
        f"{pair.of('its time')}, {share:.4f}x of its inertia; ours {len(fit.reseeded)} updates",
        "<= 1x of its time, <= 1.0001x of its inertia",
        (pair.ratio, share),
        ours,
    )


def starts(points: torch.Tensor) -> Row:
    """Total time and inertia from k-means++ beside those from random points."""
    some = points[torch.randperm(len(points), generator=torch.Generator().manual_seed(0))[:K]]
    (plus, fit), (random, other) = (
        cost(partial(kmeans, points, K, first, UPDATES, 1e-4)) for first in ("kmeans++", some)
    )
    ratio = fit.inertia[-1] / other.inertia[-1]
    return Row(
        f"the same from k-means++ ({len(fit.reseeded)} updates) and from random points "
        f"({len(other.reseeded)})",
        f"{ratio:.4f}x of the inertia, {plus.wall:.2f} s and {random.wall:.2f} s",
        "inertia <= 1.01x",
        ratio,
    )


def start(points: np.ndarray) -> None:
    kmeans(torch.from_numpy(points), min(K, len(points) // 20), "kmeans++", 3)
