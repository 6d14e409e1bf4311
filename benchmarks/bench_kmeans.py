"""K-means against faiss and scikit-learn from the same first centres, and what k-means++ costs.

faiss is no dependency: without it its row says so (pip install faiss-cpu). It has a process of its
own, as two pools of threads, waiting for work, would slow each other. Both are measured in
processor time.
"""

import importlib.util
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import torch
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from benchmarks.common import Row, Seconds, apart, grown, paired, seconds
from pipeline.runtime.process import keep_freed_memory
from pipeline.statistics.kmeans import GPU_VALUES, VALUES, assign, kmeans

POINTS, WIDTH, K, UPDATES, RUNS = 20_000, 512, 1_000, 25, 3
WORK = f"k-means of {POINTS:,} x {WIDTH}, k = {K:,}, {UPDATES} updates"


def rows() -> list[Row]:
    """Time and inertia against both, the two ways to start, and memory."""
    keep_freed_memory()  # as the stage does
    points = torch.from_numpy(random_points())
    if importlib.util.find_spec("faiss"):
        first = against(points, "faiss", faiss_run, 1.0)
    else:
        first = Row(f"{WORK}, against faiss", "not measured: no faiss here", "<= 1x", False)
    return [first, against(points, "scikit-learn", scikit_learn_run, 1.2), starts(points), memory()]


def random_points() -> np.ndarray:
    """(N, D) float32 like pooled features: overlapping clusters of unequal size, not negative."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((2 * K, WIDTH), dtype=np.float32)
    chances = 1 / np.arange(10, 10 + len(centres))
    members = random.choice(len(centres), POINTS, p=chances / chances.sum())
    noise = random.standard_normal((POINTS, WIDTH), dtype=np.float32)
    return np.maximum(centres[members] + noise, 0)


def faiss_run(threads: int) -> tuple[Seconds, np.ndarray]:
    """Seconds and centres (k, D) of faiss."""
    import faiss

    faiss.omp_set_num_threads(threads)
    points = random_points()
    model = faiss.Kmeans(WIDTH, K, niter=UPDATES, max_points_per_centroid=POINTS)
    took = seconds(lambda: model.train(points, init_centroids=points[:K]))
    return took, np.asarray(model.centroids)


def scikit_learn_run(threads: int) -> tuple[Seconds, np.ndarray]:
    """Seconds and centres (k, D) of scikit-learn."""
    points = random_points()
    model = KMeans(K, init=points[:K], n_init=1, max_iter=UPDATES, tol=0)
    with threadpool_limits(threads):
        return seconds(lambda: model.fit(points)), model.cluster_centers_


def against(points: torch.Tensor, name: str, run, limit: float) -> Row:
    """Time, at most `limit` times the library's, and inertia, at most 1e-4 above its, in pairs."""
    kept = {}

    def ours() -> None:
        kept["found"] = kmeans(points, K, points[:K], UPDATES, 0)

    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        pairs = []
        for _ in range(RUNS + 1):  # the first is a warm-up
            theirs, centres = other.submit(run, torch.get_num_threads()).result()
            pairs.append((seconds(ours), theirs))
    found = kept["found"]
    inertia = assign(points, torch.from_numpy(np.asarray(centres, np.float32))).inertia
    pair = paired(pairs[1:])
    share = found.inertia[-1] / inertia
    return Row(
        f"{WORK}, against {name} from the same centres",
        f"{pair.of('its time')}, {share:.4f}x of its inertia; ours {len(found.reseeded)} updates",
        f"<= {limit:g}x of its time, <= 1.0001x of its inertia",
        pair.ratio <= limit and share <= 1.0001,
        ours,
    )


def starts(points: torch.Tensor) -> Row:
    """Total time and inertia from k-means++ beside those from random points."""
    found, took = {}, {}

    def run(name: str) -> None:
        found[name] = kmeans(points, K, name, UPDATES, 1e-4)

    for name in ("random", "kmeans++"):
        took[name] = seconds(lambda name=name: run(name)).wall
    ratio = found["kmeans++"].inertia[-1] / found["random"].inertia[-1]
    updates = {name: len(each.reseeded) for name, each in found.items()}
    return Row(
        f"the same from k-means++ ({updates['kmeans++']} updates) and from random points "
        f"({updates['random']})",
        f"{ratio:.4f}x of the inertia, {took['kmeans++']:.2f} s and {took['random']:.2f} s",
        "inertia <= 1.01x",
        ratio <= 1.01,
    )


def memory() -> Row:
    """Peak memory beside the points; the centres and their sums are part of it."""
    found = apart(_grown)
    copies = found / (4 * POINTS * WIDTH)
    return Row(
        f"memory of the same beside the points ({4 * POINTS * WIDTH / 1e6:.0f} MB)",
        f"{found / 1e6:.0f} MB, {copies:.1f} copies; blocks of {VALUES:,} distances, on a GPU "
        f"of {GPU_VALUES:,}",
        "<= 3 copies",
        copies <= 3,
    )


def _grown() -> int:
    points = torch.from_numpy(random_points())
    kmeans(points[:200], 10, "kmeans++", 2)  # a warm-up
    return grown(lambda: kmeans(points, K, "kmeans++", 3))
