"""How alike a model sees different images: Pearson correlations of their features (Zheng et al.
2020, figure 5)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.runtime.errors import WorkbenchError, listing


@dataclass(frozen=True, eq=False)
class Correlation:
    """matrix: (N, N) float64 Pearson correlations of the features of N images."""

    matrix: np.ndarray

    @property
    def between(self) -> np.ndarray:
        """Correlations of different images, every pair once, (N (N - 1) / 2,)."""
        return self.matrix[np.triu_indices(len(self.matrix), 1)]

    def summary(self) -> dict[str, float]:
        """Mean and mean absolute correlation of different images, and the largest one."""
        values = self.between
        means = {"mean": float(values.mean()), "mean_absolute": float(np.abs(values).mean())}
        return means | {"largest": float(values.max())}


def correlate(features: np.ndarray, image_ids: Sequence[str]) -> Correlation:
    """Pearson correlations of images over the values of their features, in float64.

    Args:
        features: (N, D) or (N, ...), of at least two images.
        image_ids: (N,) for messages.

    Returns:
        The correlations of all pairs, and what sums them up.

    Raises:
        WorkbenchError: one image, and features that are constant or not finite, by the images' ids.
    """
    if len(features) < 2:
        raise WorkbenchError(f"{len(features)} image: correlations need at least two")
    values = features.reshape(len(features), -1).astype(np.float64)
    values = values - values.mean(1, keepdims=True)
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    faulty = ~np.isfinite(norms[:, 0]) | (norms[:, 0] == 0)
    if faulty.any():
        names = listing(np.asarray(image_ids)[faulty], 5)
        raise WorkbenchError(f"features that are constant or not finite, of images {names}")
    values /= norms
    matrix = np.clip(values @ values.T, -1.0, 1.0)
    np.fill_diagonal(matrix, 1.0)
    return Correlation(matrix)


def sample_rows(total: int, count: int, seed: int) -> np.ndarray:
    """Different rows, drawn at random.

    Args:
        total: how many rows there are.
        count: how many are drawn, all where there are fewer.
        seed: of the draw.

    Returns:
        (min(count, total),) int64, ascending.
    """
    return np.sort(np.random.default_rng([seed, 0xC0441]).permutation(total)[:count])
