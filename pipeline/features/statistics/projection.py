"""Principal components of rows too many and too wide to hold, such as Fisher vectors.

One pass for the covariance and one exact eigendecomposition, in float64, 2.6 GB at D = 18,000:
incremental and randomised forms are less exact, and float32 rounds small variances away.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from pipeline.features.statistics.covariance import measure, peek
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import say


@dataclass(frozen=True)
class Projection:
    """Principal components in descending order of variance."""

    mean: np.ndarray  # (D,) float32
    components: np.ndarray  # (P, D) float32, orthonormal rows, the largest entry of each positive
    variances: np.ndarray  # (P,) float64, over rows - 1
    total: float  # variance of all D columns

    @property
    def explained(self) -> float:
        """Share of the total variance that the components hold, in [0, 1]."""
        return min(1.0, float(self.variances.sum()) / self.total)

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Rows (M, D) to their coordinates (M, P) float32."""
        return (x.astype(np.float32, copy=False) - self.mean) @ self.components.T


def fit_projection(blocks: Iterable[np.ndarray], components: int, rows: int) -> Projection:
    """Fit principal components in one pass.

    Args:
        blocks: (B, D) float32 each.
        components: P, how many are kept, at most D.
        rows: of all blocks together.

    Returns:
        The projection from D to P values.

    Raises:
        WorkbenchError: for values that are not finite, and where all rows are equal.
    """
    (width,), parts = peek((block,) for block in blocks)
    mean, covariance = measure("pca", ["sentence vectors"], [width], parts, rows)
    total = float(covariance.trace())
    if total == 0:
        raise WorkbenchError(
            f"sentences.<encoding>.pca: all {rows:,} sentence vectors are equal, "
            "there is no variance to keep",
            "set pca to none, or look at the captions",
        )
    say(f"pca: {components:,} eigenvectors of a {width:,} x {width:,} matrix")
    variances, vectors = leading_eigenvectors(covariance, components)
    axes = np.ascontiguousarray(vectors.T, dtype=np.float32)
    axes *= signs(axes.T)[:, None]
    # A rank below D leaves eigenvalues that rounding may push below zero.
    return Projection(mean.astype(np.float32), axes, np.maximum(variances, 0), total)


def leading_eigenvectors(matrix: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues of a symmetric matrix, and their eigenvectors.

    Args:
        matrix: (D, D) float64 in Fortran order, whose lower triangle is read and overwritten.
        count: K, how many.

    Returns:
        Eigenvalues (K,) in descending order, and eigenvectors (D, K).
    """
    values, vectors = eigh(
        matrix,
        lower=True,
        driver="evr",
        subset_by_index=(len(matrix) - count, len(matrix) - 1),
        overwrite_a=True,
        check_finite=False,
    )
    return values[::-1], vectors[:, ::-1]


def signs(columns: np.ndarray) -> np.ndarray:
    """+1 or -1 for each of K columns (D, K), making its entry of largest magnitude positive."""
    largest = np.abs(columns).argmax(axis=0)
    return np.where(columns[largest, np.arange(columns.shape[1])] < 0, -1, 1)
