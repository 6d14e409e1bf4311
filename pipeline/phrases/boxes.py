"""Boxes of images, their IoU, and non-maximum suppression (NMS)."""

import numpy as np


def rows_of_images(owners: np.ndarray, count: int) -> list[np.ndarray]:
    """The rows that belong to each of some images, ascending, in one pass over all rows.

    Args:
        owners: (R,) number of each row's image, below `count`; rows of negative ones are nobody's.
        count: number of images.
    """
    order = np.argsort(owners, kind="stable")
    return np.split(order, np.searchsorted(owners[order], np.arange(count + 1)))[1:-1]


def areas(boxes: np.ndarray) -> np.ndarray:
    """(..., 4) x1, y1, x2, y2 to areas (...,) float64; 0 where a box has none."""
    corners = boxes.astype(np.float64)
    sides = np.clip(corners[..., 2:] - corners[..., :2], 0, None)
    return np.asarray(sides[..., 0] * sides[..., 1])


def overlaps(ones: np.ndarray, others: np.ndarray) -> np.ndarray:
    """IoU of boxes (..., A, 4) with (..., B, 4): (..., A, B) float64; 0 for boxes without area."""
    a, b = ones.astype(np.float64)[..., :, None, :], others.astype(np.float64)[..., None, :, :]
    shared = areas(
        np.concatenate([np.maximum(a[..., :2], b[..., :2]), np.minimum(a[..., 2:], b[..., 2:])], -1)
    )
    joined = areas(a) + areas(b) - shared
    return np.divide(shared, joined, out=np.zeros_like(shared), where=shared > 0)


def survivors(near: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Greedy suppression, each query by its own scores, all queries of an image in one pass.

    The best box of a query suppresses those near it, then the next that is left, and so on; of
    equal scores the earlier box comes first.

    Args:
        near: (R, R) bool, which boxes suppress each other.
        scores: (Q, R) of each query.

    Returns:
        (Q, R) bool.
    """
    compatible = ~near | np.eye(len(near), dtype=bool)
    kept, queries = np.ones(scores.shape, bool), np.arange(len(scores))
    for best in np.argsort(-scores, axis=1, kind="stable").T:  # (Q,) one box of each query
        alive = np.flatnonzero(kept[queries, best])
        kept[alive] &= compatible[best[alive]]
    return kept
