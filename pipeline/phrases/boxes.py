"""Boxes of images, their IoU, and non-maximum suppression (NMS)."""

import numpy as np


def rows_of_images(owners: np.ndarray, count: int) -> list[np.ndarray]:
    """The rows of each of `count` images, ascending; owners: (R,) images, negative for none."""
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
    """Greedy NMS, each query, or class, by its own scores (Q, R), of equal ones the earlier box
    first: (Q, R) bool, which boxes are kept. near: (R, R) bool, which boxes suppress each other. As
    torchvision's nms query by query, and faster."""
    compatible = ~near | np.eye(len(near), dtype=bool)
    kept, queries = np.ones(scores.shape, bool), np.arange(len(scores))
    for best in np.argsort(-scores, axis=1, kind="stable").T:  # (Q,) one box of each query
        alive = np.flatnonzero(kept[queries, best])
        kept[alive] &= compatible[best[alive]]
    return kept
