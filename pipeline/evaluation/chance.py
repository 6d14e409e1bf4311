"""Where uniformly random rankings put the best true item of a query, exactly."""

import numpy as np


def beyond(true: np.ndarray, items: int) -> np.ndarray:
    """Probability that the best true item ranks after r, for r = 0 ... n: (n + 1,), down to 0. C(n
    - m, r) / C(n, r) with m = true (Q,) of n items, averaged over queries."""
    total = np.zeros(items + 1)
    for m, queries in zip(*np.unique(true, return_counts=True), strict=True):
        steps = np.arange(items)
        survival = np.cumprod(np.maximum(items - m - steps, 0) / (items - steps))
        total += queries / len(true) * np.concatenate([[1.0], survival])
    return total
