"""The rows that K-means starts from, far from each other by k-means++."""

import torch

from pipeline.runtime.process import Progress

FEWEST = 4  # candidates drawn at once
CANDIDATES = 256  # the most of them: (N, 256) distances are held
CANDIDATE_VALUES = 1 << 22  # distances from candidates computed at once: 16 MB in float32


def spread_rows(points: torch.Tensor, k: int, generator: torch.Generator) -> torch.Tensor:
    """Rows far from each other, by k-means++ (Arthur and Vassilvitskii 2007).

    Each is drawn in proportion to its squared distance from the nearest one before it. Candidates
    are drawn many at a time, and each is taken with the ratio of its chance now to its chance then:
    exactly the law of drawing one by one. When all points lie on chosen ones, the rest is uniform.

    Args:
        points: (N, D) float32.
        k: how many rows.
        generator: on the CPU.

    Returns:
        (k,) int64 on the CPU, numbers of rows.
    """
    norms = squared_norms(points)
    rows = torch.randint(len(points), (1,), generator=generator)
    nearest = squared_distances(points, norms, rows)[:, 0]
    with Progress("k-means++", k, "centres", done=1) as progress:
        while len(rows) < k and bool(nearest.any()):
            count = min(max(len(rows) // 4, FEWEST), CANDIDATES)
            candidates = draw_rows(nearest.cpu().double(), count, generator)
            between = squared_distances(points, norms, candidates)
            taken = accepted_candidates(nearest, between, candidates, generator)[: k - len(rows)]
            nearest = torch.minimum(nearest, between[:, taken].amin(1))
            rows = torch.cat([rows, candidates[taken]])
            progress.update(len(taken))
    missing = torch.randint(len(points), (k - len(rows),), generator=generator)
    return torch.cat([rows, missing])


def draw_rows(weights: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """Draw indices with replacement.

    Args:
        weights: (N,) float64 on the CPU, not negative, not all zero.
        count: how many.
        generator: on the CPU.

    Returns:
        (count,) int64, each in proportion to its weight.
    """
    totals = weights.cumsum(0)
    marks = torch.rand(count, generator=generator, dtype=torch.float64) * totals[-1]
    rows = torch.searchsorted(totals, marks, right=True)
    # rounding may put a mark on the last total, beyond the last row that can be drawn
    return rows.clamp_max(int(weights.nonzero()[-1]))


def accepted_candidates(
    nearest: torch.Tensor,
    between: torch.Tensor,
    candidates: torch.Tensor,
    generator: torch.Generator,
) -> list[int]:
    """Which of the candidates are taken as centres.

    Args:
        nearest: (N,) squared distances from the nearest centre when the candidates were drawn.
        between: (N, C) squared distances from all points to the candidates.
        candidates: (C,) numbers of rows.
        generator: on the CPU.

    Returns:
        Their positions among the candidates, in order; the first always.
    """
    before = nearest.cpu()[candidates].double()
    among = between[candidates.to(between.device)].cpu().double()
    limits = torch.rand(len(candidates), generator=generator, dtype=torch.float64) * before
    now = before.clone()
    taken = []
    for position in range(len(candidates)):
        if limits[position] < now[position]:
            taken.append(position)
            now = torch.minimum(now, among[:, position])
    return taken


def squared_norms(rows: torch.Tensor) -> torch.Tensor:
    """(N,) squared lengths of rows (N, D), without a second (N, D)."""
    return torch.linalg.vector_norm(rows, dim=1).square_()


def squared_distances(
    points: torch.Tensor, norms: torch.Tensor, rows: torch.Tensor
) -> torch.Tensor:
    """Squared distances of all points from some of them.

    Args:
        points: (N, D) float32.
        norms: (N,) squared lengths of the points.
        rows: (C,) numbers of rows.

    Returns:
        (N, C), 0 where rounding hides them.
    """
    rows = rows.to(points.device)
    result = points.new_empty(len(points), len(rows))
    limit = 4 * torch.finfo(points.dtype).eps
    size = max(CANDIDATE_VALUES // len(rows), 1)
    for start in range(0, len(points), size):
        block = slice(start, start + size)
        scale = norms[block, None] + norms[rows]
        squared = torch.addmm(scale, points[block], points[rows].T, alpha=-2)
        # a duplicate of a centre would come out near 0, not at it, and be drawn as one more centre
        result[block] = squared.masked_fill_(squared <= limit * scale, 0)
    result[rows, torch.arange(len(rows), device=rows.device)] = 0
    return result
