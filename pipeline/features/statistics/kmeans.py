"""K-means by Lloyd's algorithm, in float32, the same code on CPU and GPU.

The pseudo classes of Zheng et al. 2020 (table 5) are 3,000 and 10,000 clusters of 113,287 features
of width 2,048. Distances are a matrix product in blocks. After a few updates most centres stay
where they are: only distances from the others are computed anew.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from pipeline.features.statistics.first_centres import spread_rows, squared_norms
from pipeline.runtime.process import Progress

VALUES = 1 << 20  # distances held at once: 4 MB in float32, so that a CPU keeps them in its cache
GPU_VALUES = 1 << 26


@dataclass(frozen=True, eq=False)
class Clustering:
    """K-means clusters of N points."""

    centres: torch.Tensor  # (k, D) float32
    labels: torch.Tensor  # (N,) int64, the nearest centre of each point
    sizes: torch.Tensor  # (k,) int64, 0 for an empty cluster
    empty: int  # clusters without points: too few points differ, or the iterations did not suffice
    inertia: list[float]  # sums of squared distances, at first and after each update; none rises
    reseeded: list[int]  # how many empty clusters each update moved
    converged: bool  # whether it stopped before its iterations were used up


def kmeans(
    points: torch.Tensor,
    k: int,
    initialisation: str | torch.Tensor = "kmeans++",
    iterations: int = 25,
    tolerance: float = 1e-4,
    seed: int = 0,
) -> Clustering:
    """Cluster points by Lloyd's algorithm.

    A cluster that gets no points is moved to the point farthest from its centre, one after the
    other. The points are copied once, as float32 around their mean; other memory grows with neither
    N x k nor N x D.

    Args:
        points: (N, D) finite; computed on their device.
        k: number of clusters.
        initialisation: kmeans++, or the centres (k, D) themselves.
        iterations: the most updates.
        tolerance: stop when the inertia falls by no more than this share and no cluster is empty.
        seed: of kmeans++.

    Returns:
        The clusters.
    """
    mean = points.mean(0, dtype=torch.float64).to(torch.float32)
    centred = points.to(torch.float32, copy=True).sub_(mean)
    if isinstance(initialisation, torch.Tensor):
        first = initialisation.to(centred) - mean
    else:
        rows = spread_rows(centred, k, torch.Generator().manual_seed(seed))
        first = centred[rows.to(centred.device)]
    state = assign(centred, first)
    inertia = [state.inertia]
    reseeded: list[int] = []
    converged = False
    with Progress("k-means", iterations, "iterations") as progress:
        while len(reseeded) < iterations and not converged:
            centres, moved = updated_centres(centred, state)
            following = assign(centred, centres, state)
            progress.update(note=f"inertia {following.inertia:,.6g}")
            fallen = state.inertia - following.inertia
            stalled = fallen <= tolerance * state.inertia and not following.empty
            converged = fallen <= 0 or stalled
            if fallen >= 0:  # a step of Lloyd's never raises it, so that a rise is rounding
                state = following
                inertia.append(state.inertia)
                reseeded.append(moved)
    return Clustering(
        centres=state.centres.add_(mean),
        labels=state.labels,
        sizes=state.sizes,
        empty=state.empty,
        inertia=inertia,
        reseeded=reseeded,
        converged=converged,
    )


@dataclass(frozen=True, eq=False)
class Assignment:
    """Which of the centres each of N points is nearest to."""

    centres: torch.Tensor  # (k, D)
    labels: torch.Tensor  # (N,) int64, the nearest centre of each point
    scores: torch.Tensor  # (N,) float32, |c|^2 / 2 - x c of that centre, from `nearest_of_all`
    squared: torch.Tensor  # (N,) float32 squared distances from it
    sizes: torch.Tensor  # (k,) int64 points of each centre
    inertia: float  # sum of the squared distances
    empty: int  # centres without points


def assign(
    points: torch.Tensor, centres: torch.Tensor, before: Assignment | None = None
) -> Assignment:
    """Assign points to the nearest centres, of equally near ones to the first.

    Args:
        points: (N, D).
        centres: (k, D), compared by inner products, |c|^2 / 2 - x c.
        before: the assignment to centres of which some stay as they were, None to look at all.

    Returns:
        The assignment; its distances are taken from differences, 0 where they are equal.
    """
    if before is None:
        labels, scores = nearest_of_all(points, centres)
    else:
        labels, scores = nearest_of_moved(points, centres, before)
    squared = torch.empty_like(scores)
    for rows in row_blocks(points, points.shape[1]):
        squared[rows] = squared_norms(points[rows] - centres[labels[rows]])
    sizes = torch.bincount(labels, minlength=len(centres))
    inertia = float(squared.sum(dtype=torch.float64))
    return Assignment(
        centres=centres,
        labels=labels,
        scores=scores,
        squared=squared,
        sizes=sizes,
        inertia=inertia,
        empty=int((sizes == 0).sum()),
    )


def nearest_of_all(
    points: torch.Tensor, centres: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The nearest centre of each point.

    Args:
        points: (N, D).
        centres: (k, D).

    Returns:
        Numbers of centres (N,) int64, and the scores |c|^2 / 2 - x c by which they are nearest,
        (N,).
    """
    half = squared_norms(centres) / 2
    labels = torch.empty(len(points), dtype=torch.int64, device=points.device)
    scores = points.new_empty(len(points))
    for rows in row_blocks(points, len(centres)):
        nearest = torch.addmm(half, points[rows], centres.T, alpha=-1).min(1)
        scores[rows] = nearest.values
        labels[rows] = nearest.indices
    return labels, scores


def nearest_of_moved(
    points: torch.Tensor, centres: torch.Tensor, before: Assignment
) -> tuple[torch.Tensor, torch.Tensor]:
    """The nearest centre of each point, from products with moved centres alone.

    A moved one that reaches a point's old score is the nearest; else the old one is, if it stayed.
    Only points whose own centre moved away from them need all products.

    Args:
        points: (N, D).
        centres: (k, D), of which some are those of `before`.
        before: the assignment to the earlier centres.

    Returns:
        Numbers of centres (N,) int64 and scores (N,), those that `nearest_of_all` gives.
    """
    changed = (centres != before.centres).any(1)
    moved = changed.nonzero()[:, 0]
    if not len(moved):
        return before.labels, before.scores
    if 2 * len(moved) > len(centres):
        return nearest_of_all(points, centres)
    among, scores = nearest_of_all(points, centres[moved])
    labels = moved[among]
    reached = (scores < before.scores) | (
        (scores == before.scores) & ((labels < before.labels) | changed[before.labels])
    )
    labels = torch.where(reached, labels, before.labels)
    scores = torch.where(reached, scores, before.scores)
    lost = (~reached & changed[before.labels]).nonzero()[:, 0]
    labels[lost], scores[lost] = nearest_of_all(points[lost], centres)
    return labels, scores


def updated_centres(points: torch.Tensor, state: Assignment) -> tuple[torch.Tensor, int]:
    """The centres after an update.

    Args:
        points: (N, D).
        state: the assignment of the points.

    Returns:
        The means of the clusters (k, D), empty ones moved to far points, and how many were moved.
    """
    # in float64 the mean of equal points is that point, to the last bit
    sums = torch.zeros_like(state.centres, dtype=torch.float64)
    for rows in row_blocks(points, points.shape[1]):
        sums.index_add_(0, state.labels[rows], points[rows].double())
    centres = sums.div_(state.sizes.clamp_min(1)[:, None])
    centres = torch.where(state.sizes[:, None] > 0, centres.to(points.dtype), state.centres)
    empty = (state.sizes == 0).nonzero()[:, 0]
    if len(empty):
        far = farthest_rows(points, state.squared, len(empty))
        empty = empty[: len(far)]
        centres[empty] = points[far]
    return centres, len(empty)


def farthest_rows(points: torch.Tensor, squared: torch.Tensor, count: int) -> torch.Tensor:
    """The points that are farthest from all centres, one after the other.

    Args:
        points: (N, D).
        squared: (N,) squared distances from the nearest centre.
        count: the most rows.

    Returns:
        Numbers of rows, (count,) int64 or fewer: each the farthest from its centre and from the
        rows before it, as long as one is not at 0.
    """
    rows: list[torch.Tensor] = []
    while len(rows) < count and bool(squared.any()):
        row = squared.argmax()
        rows.append(row)
        from_row = torch.empty_like(squared)
        for block in row_blocks(points, points.shape[1]):
            from_row[block] = squared_norms(points[block] - points[row])
        squared = torch.minimum(squared, from_row)
    return torch.stack(rows) if rows else squared.new_empty(0, dtype=torch.int64)


def row_blocks(points: torch.Tensor, width: int) -> Iterator[slice]:
    """Blocks of rows that are worked on at a time.

    Args:
        points: (N, D), whose device decides how much memory a block may take.
        width: values held for each row.

    Yields:
        Slices of the N rows, VALUES or GPU_VALUES values each at most, one row at least.
    """
    size = max((GPU_VALUES if points.is_cuda else VALUES) // max(width, 1), 1)
    for start in range(0, len(points), size):
        yield slice(start, start + size)


def count_distinct(points: torch.Tensor) -> int:
    """How many of the rows of points (N, D) differ; 0 and -0 are equal."""
    seen: set[bytes] = set()
    for block in row_blocks(points, points.shape[1]):
        rows = (points[block] + 0.0).cpu().numpy()
        seen.update(hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows)
    return len(seen)
