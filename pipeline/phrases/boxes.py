"""Boxes of images, their IoU, and non-maximum suppression (NMS)."""

import numpy as np


def rows_of_images(owners: np.ndarray, count: int) -> list[np.ndarray]:
    """The rows that belong to each of some images, ascending.

    Args:
        owners: (R,) number of each row's image; rows of negative ones are nobody's.
        count: number of images.

    Returns:
        `count` arrays of row numbers.
    """
    order = np.argsort(owners, kind="stable")
    return np.split(order, np.searchsorted(owners[order], np.arange(count + 1)))[1:-1]


def areas(boxes: np.ndarray) -> np.ndarray:
    """(..., 4) x1, y1, x2, y2 to areas (...,) float64; 0 where a box has none."""
    corners = boxes.astype(np.float64)
    sides = np.clip(corners[..., 2:] - corners[..., :2], 0, None)
    return np.asarray(sides[..., 0] * sides[..., 1])


def overlaps(ones: np.ndarray, others: np.ndarray) -> np.ndarray:
    """IoU of boxes, 0 for boxes without area.

    Args:
        ones: (..., A, 4) x1, y1, x2, y2.
        others: (..., B, 4) x1, y1, x2, y2.

    Returns:
        (..., A, B) float64.
    """
    first = ones.astype(np.float64)[..., :, None, :]
    second = others.astype(np.float64)[..., None, :, :]
    top_left = np.maximum(first[..., :2], second[..., :2])
    bottom_right = np.minimum(first[..., 2:], second[..., 2:])
    shared = areas(np.concatenate([top_left, bottom_right], axis=-1))
    joined = areas(first) + areas(second) - shared
    return np.divide(shared, joined, out=np.zeros_like(shared), where=shared > 0)


def survivors(near: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Greedy NMS, each query, or class, by its own scores: torchvision's nms query by query, and
    faster.

    The best box of a query suppresses those near it, then the next that is left, and so on; of
    equal scores the earlier box comes first.

    Args:
        near: (R, R) bool, which boxes suppress each other.
        scores: (Q, R) of each query.

    Returns:
        (Q, R) bool, which boxes are kept.
    """
    compatible = ~near | np.eye(len(near), dtype=bool)
    kept = np.ones(scores.shape, bool)
    queries = np.arange(len(scores))
    for best in np.argsort(-scores, axis=1, kind="stable").T:  # (Q,) one box of each query
        alive = np.flatnonzero(kept[queries, best])
        kept[alive] &= compatible[best[alive]]
    return kept
